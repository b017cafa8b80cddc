"""The benchmark runs, and tells what it measured."""

import json
import subprocess
import sys

from tests.conftest import ROOT


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
