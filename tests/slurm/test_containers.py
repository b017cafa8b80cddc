"""Flows in containers: stand-ins for Apptainer and for srun with pyxis, on a real Slurm.

The stand-ins record their arguments and start the command without a container; signals take the real path.
"""

import shutil
import sys
from pathlib import Path

import pytest

from deployments.slurm.attempt import COMMAND
from tests.slurm.pool import Pool

STAND_INS = {
    # apptainer exec --bind MOUNTS IMAGE COMMAND...
    "apptainer": 'echo "$@" >>{noted}; shift 4; exec "$@"',
    # srun --nodes=1 --ntasks=1 --container-image=IMAGE --container-mounts=MOUNTS COMMAND...
    "srun": 'echo "$@" >>{noted}; shift 4; exec {srun} --nodes=1 --ntasks=1 "$@"',
}
TOLD = {
    "apptainer": "exec --bind {shared}:/data:ro image {command}",
    "srun": "--container-image=image --container-mounts={shared}:/data:ro {command}",
}


@pytest.mark.parametrize(("runtime", "program"), [("apptainer", "apptainer"), ("pyxis", "srun")])
def test_a_flow_in_a_container_is_told_to_end_when_it_is_cancelled(
    pool: Pool, shared: Path, runtime: str, program: str
) -> None:
    folder = shared / "bin"
    folder.mkdir()
    srun = shutil.which("srun", path=pool.slurm.environment["PATH"])
    script = STAND_INS[program].format(noted=shared / "told", srun=srun)
    (folder / program).write_text(f"#!/bin/bash\n{script}\n")
    (folder / program).chmod(0o755)
    run_id = pool.submit(
        "nap",
        {"folder": str(shared), "seconds": 300},
        container_runtime=runtime,
        container_image="image",
        container_mounts=[f"{shared}:/data:ro"],
        setup=[f"export PATH={folder}:{Path(sys.executable).parent}:$PATH"],
    )
    pool.wait(run_id, lambda _: (shared / "began").exists())
    pool.cancel(run_id)
    assert pool.end(run_id).state.is_cancelled()
    assert TOLD[program].format(shared=shared, command=COMMAND) in (shared / "told").read_text()
    (job,) = pool.jobs_of(run_id)
    pool.until_true(lambda: pool.job_state(job) not in {"RUNNING", "COMPLETING"})
    assert not (shared / "ended").exists()
