"""Killed at any moment and rerun: the same bytes, and finished work is not repeated."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.audit import shard as audit
from tasks.convert import scan, write
from tests.tasks.convert.killed import run
from tests.tasks.raw_shards import files_under, sample, write_shard, write_stats

ROOT = Path(__file__).parents[3]
GROUPS, MOMENTS = 4, 12


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    folder = tmp_path_factory.mktemp("raw")
    for shard in range(3):
        write_shard(folder, shard, [sample(f"{shard}{n}", 10 * shard + n) for n in range(5)])
        write_stats(folder, shard, 5)
    return folder


def killed(raw, folder, *moments):
    """Run children that are killed at these moments."""
    command = [sys.executable, "-m", "tests.tasks.convert.killed", str(raw), str(folder), *map(str, moments)]
    subprocess.run(command, check=True, cwd=ROOT, timeout=200)


@pytest.fixture(scope="module")
def undisturbed(raw, tmp_path_factory):
    """The folder of an undisturbed run, and its number of moments."""
    folder = tmp_path_factory.mktemp("undisturbed")
    killed(raw, folder, 0)
    moments = int((folder / "0" / "moments").read_text())
    (folder / "0" / "moments").unlink()
    return folder / "0", moments


@pytest.fixture
def work(monkeypatch):
    """The work that is really done, by receipt name."""
    done = []
    audited, scanned, written = audit._audit, scan._summary, write._write_members
    monkeypatch.setattr(audit, "_audit", lambda job: done.append(f"audit/{job.shard}.json") or audited(job))
    monkeypatch.setattr(scan, "_summary", lambda job, *r: done.append(f"scan/{job.shard}.json") or scanned(job, *r))
    monkeypatch.setattr(
        write, "_write_members", lambda f, job, *r: done.append(f"write/{job.filename}.json") or written(f, job, *r)
    )
    return done


def receipts(folder):
    """Return the names of existing receipts, as in ``work``."""
    kinds = ("audit", "out/.prepare/scan", "out/.prepare/write")
    return {f"{kind.split('/')[-1]}/{path.name}" for kind in kinds for path in (folder / kind).glob("*.json")}


@pytest.mark.parametrize("group", range(GROUPS))
def test_killed_at_any_moment_and_started_again_it_gives_the_same_bytes(raw, undisturbed, tmp_path, work, group):
    expected, count = undisturbed
    moments = sorted(random.Random(group).sample(range(1, count + 1), MOMENTS))
    killed(raw, tmp_path, *moments)
    for moment in moments:
        folder = tmp_path / str(moment)
        finished = receipts(folder)
        work.clear()
        run(raw, folder)
        assert files_under(folder, but=["fingerprints/"]) == files_under(expected, but=["fingerprints/"]), moment
        assert set(files_under(folder)) == set(files_under(expected)), moment
        assert set(work) == receipts(folder) - finished and len(work) == len(set(work)), moment


def test_killed_again_and_again_it_still_comes_to_the_same_end(raw, undisturbed, tmp_path):
    """Kill each run a little later than the one before, over the leftovers of all of them."""
    expected, count = undisturbed
    folder = tmp_path / "0"
    killed(raw, tmp_path, count // 3, 5, 40, 90, 150, "--in", folder)
    run(raw, folder)
    assert set(files_under(folder)) == set(files_under(expected))
    assert files_under(folder, but=["fingerprints/"]) == files_under(expected, but=["fingerprints/"])
