"""Faulty storage under a conversion: a clear error, no partial file is trusted, and a rerun writes the same bytes."""

import errno
from pathlib import Path

import pytest

from tasks.audit.models import AuditJob
from tasks.audit.shard import audit_shard
from tasks.contracts.errors import PipelineError, ShardError, TransientError
from tasks.contracts.settings import ConvertSettings
from tasks.io.storage import in_words
from tests.tasks.convert.serial import convert
from tests.tasks.raw_shards import files_under, sample, write_shard, write_stats
from tests.tasks.small_disk import small_disk

SETTINGS = ConvertSettings(max_samples_per_tar=3, validation_fraction=0.3)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    folder = tmp_path / "raw"
    for shard in range(3):
        write_shard(folder, shard, [sample(f"{shard}{n}", 10 * shard + n) for n in range(6)])
        write_stats(folder, shard, 6)
    return folder


def run(raw: Path, out: Path) -> None:
    """Audit and convert."""
    for number in range(3):
        audit_shard(AuditJob(shards_dir=raw, audit_dir=out / "audit", shard=f"{number:08d}"))
    convert(raw, out / "energon", SETTINGS, out / "audit")


def content(out: Path) -> dict[str, bytes]:
    return files_under(out, but=["fingerprints"])


def fault_of_storage(error: BaseException) -> OSError:
    """Return the error, or the cause that the plan reports for a missing scan."""
    fault = error.__cause__ if isinstance(error, ShardError) else error
    assert isinstance(fault, OSError)
    return fault


@pytest.fixture
def undisturbed(raw: Path, tmp_path: Path) -> dict[str, bytes]:
    run(raw, tmp_path / "undisturbed")
    return content(tmp_path / "undisturbed")


@pytest.mark.parametrize(("option", "start", "step"), [("size={}k", 8, 12), ("nr_inodes={}", 3, 4)])
def test_a_disk_that_is_full_again_and_again_is_named_and_room_gives_the_same_bytes(
    raw: Path, tmp_path: Path, undisturbed: dict[str, bytes], option: str, start: int, step: int
) -> None:
    full = 0
    with small_disk(tmp_path / "disk", option.format(start)) as disk:
        for room in range(start, 1000, step):
            disk.remount(option.format(room))
            try:
                run(raw, disk.folder)
                break
            except (OSError, ShardError) as error:
                told = in_words(fault_of_storage(error))
                assert told and str(tmp_path / "disk") in str(told) and "the disk is full" in str(told)
                assert not isinstance(told, TransientError)
                assert not list(disk.folder.rglob("*.partial"))
                full += 1
        assert full >= 5
        assert content(disk.folder) == undisturbed


def test_a_read_only_folder_is_named_and_a_writable_one_goes_on(
    raw: Path, tmp_path: Path, undisturbed: dict[str, bytes]
) -> None:
    with small_disk(tmp_path / "disk", "size=1m") as disk:
        audit_shard(AuditJob(shards_dir=raw, audit_dir=disk.folder / "audit", shard="00000000"))
        disk.remount("ro")
        with pytest.raises(OSError) as caught:
            run(raw, disk.folder)
        told = str(in_words(caught.value))
        assert str(disk.folder) in told and "read-only" in told
        disk.remount("rw")
        run(raw, disk.folder)
        assert content(disk.folder) == undisturbed


def break_renames(monkeypatch: pytest.MonkeyPatch, at: int, times: int, number: int) -> list[str]:
    """Let ``times`` renames fail, starting with the ``at``-th; return the target names of all attempted renames."""
    replace, names = Path.replace, []

    def fails(path: Path, target: Path) -> Path:
        names.append(target.name)
        if at <= len(names) < at + times:
            raise OSError(number, "injected", str(path), None, str(target))
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", fails)
    return names


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EBUSY])
def test_a_rename_that_a_busy_server_refuses_once_is_tried_again(
    raw: Path, tmp_path: Path, undisturbed: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    break_renames(monkeypatch, 7, 1, number)
    run(raw, tmp_path / "out")
    assert content(tmp_path / "out") == undisturbed


@pytest.mark.parametrize("at", range(1, 42, 4))
def test_a_rename_that_fails_anywhere_is_told_as_passing_and_a_rerun_gives_the_same_bytes(
    raw: Path, tmp_path: Path, undisturbed: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    with monkeypatch.context() as patch:
        names = break_renames(patch, at, 1, errno.EIO)
        try:
            run(raw, tmp_path / "out")
            told: PipelineError | None = None
        except OSError as error:
            told = in_words(error)
        except PipelineError as error:  # the plan's error names a scan that failed
            told = error
        assert told and "injected" in str(told) and len(names) >= at
    run(raw, tmp_path / "out")
    assert content(tmp_path / "out") == undisturbed
