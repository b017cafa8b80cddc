"""The programs behind the numbers of docs/benchmark.md and docs/scale.md work as documented."""

import json
import subprocess
import sys

import pytest

from benchmarks.many_shards import ManyShardsCommandLine, make_shards, run_twice
from benchmarks.plan import SHARD_ROWS, measure, write_scan
from benchmarks.scale import SLICES, Sample, ScaleCommandLine, reckon
from tests.conftest import ROOT


def test_plan_of_synthetic_scans_is_the_same_in_memory_and_in_parts(tmp_path):
    for shard in range(3):
        write_scan(tmp_path, shard)
    whole, figures = measure(tmp_path, 3 * SHARD_ROWS, in_parts=False)
    parts, _ = measure(tmp_path, 3 * SHARD_ROWS, in_parts=True)
    assert whole == parts
    assert figures["copies"] == 2 * SHARD_ROWS // 100 * 49 // 50  # those that are not rejected anyway
    assert figures["whole plan, CPU s"] > 0


def test_stub_audits_leave_receipts_that_count(tmp_path):
    """Run in a separate process, since the stub replaces the code of the audit."""
    program = """
import sys
from pathlib import Path
from benchmarks import stub_audit
from tasks.audit import task
from tasks.audit.models import AuditJob
from tasks.running.groups import finished_by_notes

folder = Path(sys.argv[1])
(folder / "00000000.tar").touch()
(folder / "00000000_stats.json").touch()
job = AuditJob(shards_dir=folder, audit_dir=folder / "audit", shard="00000000")
audit = task.audit_shard(job)
print(finished_by_notes(job) == audit, audit.samples)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.split() == ["True", "7500"]


def test_reference_slice_is_reckoned_from_what_a_sample_costs():
    """Check 216 shards, 1,326,942 samples at 1 ms: 20.7 s on 64 cores, while 56 GB are read."""
    sample = Sample(audit_ms=1, scan_ms=2, write_ms=3, index_bytes=10, scan_bytes=20, plan_bytes=30)
    figures = reckon(ScaleCommandLine(), sample, SLICES[0])
    assert round(figures["audit, seconds if the CPU decides"], 1) == 20.7
    assert round(figures["audit, GB read"]) == 56 and round(figures["audit, GB/s to keep the cores busy"], 1) == 2.7
    assert figures["files"] == 216 * 8 + 86 * 3 + 53 * 3
    assert figures["task runs"] == 216 + 86 + 53


def test_a_small_benchmark_writes_costs_ratios_and_a_plot(tmp_path):
    options = ["--folder", tmp_path, "--shards", "2", "--samples", "10", "--workers", "1", "--flow", "false"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.run", *options], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["samples"] == 20
    costs = {(cost["stage"], cost["workers"]): cost for cost in results["costs"]}
    serial, ours = costs["conversion", 0], costs["conversion with index", 1]
    raw = sum(path.stat().st_size for path in tmp_path.glob("raw-*/*.tar"))
    assert min(serial["bytes_read"], ours["bytes_read"]) > 0.9 * raw and ours["bytes_written"] > 0.5 * raw
    assert {"energon index", "loader check", "audit", "decoding alone"} <= {stage for stage, _ in costs}
    assert results["figures"]["conversion, times as fast, 1"] == serial["seconds"] / costs["conversion", 1]["seconds"]
    assert (tmp_path / "results.svg").stat().st_size > 5_000


@pytest.mark.usefixtures("prefect_server")
def test_a_conversion_of_many_shards_takes_few_task_runs_and_a_finished_one_submits_none(tmp_path):
    options = ManyShardsCommandLine(folder=tmp_path, flow="convert-dataset", shards=9, task_runs=2, workers=1)
    make_shards(options)
    figures = run_twice(options)
    index = 1
    assert figures["first run, task runs"] == 2 + 2 + index
    assert figures["all finished, task runs"] == index
    assert all(figures[f"first run, {stage}, s"] > 0 for stage in ("scan", "plan", "write", "index"))
