"""The stage's names in Prefect, and that its plain modules do not import Prefect."""

import subprocess
import sys

from tasks.energon.task import check_files_task, check_loader_task, index_dataset_task


def test_task_runs_have_speaking_names() -> None:
    assert index_dataset_task.task_run_name == "index-energon"
    assert check_loader_task.task_run_name == "load-{split}"
    assert check_files_task.task_run_name == "verify-energon"


def test_plain_modules_import_neither_prefect_nor_torch() -> None:
    program = "import sys, tasks.energon.check; print([m for m in ('prefect', 'torch', 'dask') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
