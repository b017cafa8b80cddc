"""The same shards and settings produce the same bytes, for any user, place and order."""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tasks.audit.models import AuditJob
from tasks.audit.shard import audit_shard
from tasks.contracts.settings import ConvertSettings
from tests.golden import copy_shards
from tests.tasks.convert.serial import convert
from tests.tasks.raw_shards import files_under

SETTINGS = ConvertSettings(max_samples_per_tar=25, validation_fraction=0.2)
ROOT = Path(__file__).parents[3]
SCRIPT = """
import os, sys
from pathlib import Path
from tasks.contracts.settings import ConvertSettings
from tests.tasks.convert.serial import convert
os.umask(int(sys.argv[3], 8))
settings = ConvertSettings(max_samples_per_tar=25, validation_fraction=0.2)
convert(Path(sys.argv[1]), Path(sys.argv[2]), settings, workers=int(sys.argv[4]))
"""


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    return copy_shards("golden+defects", tmp_path_factory.mktemp("golden") / "raw")


@pytest.fixture(scope="module")
def first(raw, tmp_path_factory):
    """A first conversion."""
    out = tmp_path_factory.mktemp("first") / "out"
    convert(raw, out, SETTINGS)
    return out


def content(out):
    """Return all files except the fingerprint notes, which contain times."""
    return files_under(out, but=["fingerprints"])


@pytest.mark.parametrize(
    ("umask", "workers", "environment"),
    [
        ("077", 3, {"TZ": "Pacific/Auckland", "LC_ALL": "C", "PYTHONHASHSEED": "1", "USER": "someone"}),
        ("000", 2, {"TZ": "UTC", "LC_ALL": "tr_TR.UTF-8", "PYTHONHASHSEED": "2", "PYTHONUTF8": "0"}),
    ],
)
def test_another_umask_time_zone_locale_and_order_of_workers(raw, first, tmp_path, umask, workers, environment):
    command = [sys.executable, "-c", SCRIPT, str(raw), str(tmp_path / "out"), umask, str(workers)]
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, **environment}, timeout=120)
    assert content(tmp_path / "out") == content(first)
    assert (tmp_path / "out" / "manifest.json").stat().st_mode & 0o777 == 0o666 & ~int(umask, 8)


@pytest.mark.parametrize("workers", [2, 4])
def test_any_number_of_workers_in_another_folder_after_an_audit(raw, first, tmp_path, workers):
    for shard in range(4):
        audit_shard(AuditJob(shards_dir=raw, audit_dir=tmp_path / "audit", shard=f"{shard:08d}"))
    convert(raw, tmp_path / "elsewhere" / "out", SETTINGS, tmp_path / "audit", workers=workers)
    expected = {name: data for name, data in content(first).items() if ".prepare/index" not in name}
    assert content(tmp_path / "elsewhere" / "out") == expected


def test_no_file_tells_of_a_path(raw, first):
    paths = [str(raw.parent), str(first.parent), str(ROOT), str(Path.home()) + "/"]
    for name, data in content(first).items():
        assert not any(path.encode() in data for path in paths), name


def test_the_manifest_is_readable_json_with_sorted_keys(first):
    text = (first / "manifest.json").read_text(encoding="utf-8")
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def test_headers_of_output_tars_hold_nothing_but_name_and_size(first):
    for path in first.glob("*.tar"):
        assert path.stat().st_size % tarfile.RECORDSIZE == 0
        with tarfile.open(path) as tar:
            headers = {(i.mode, i.mtime, i.uid, i.gid, i.uname, i.gname, i.type) for i in tar}
        assert headers == {(0o644, 0, 0, 0, "", "", tarfile.REGTYPE)}
