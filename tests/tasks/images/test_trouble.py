"""Problems that are detected early: disk, success rate, decoder, name resolution."""

from pathlib import Path

import pytest

from tasks.contracts.errors import DownloadError
from tasks.contracts.layout import DataRoot
from tasks.contracts.settings import DownloadSettings, TroubleSettings
from tasks.images import supervise
from tasks.images.completion import ShardStats
from tasks.images.environment import DownloaderEnvironment
from tasks.images.supervise import Observer
from tasks.images.trouble import check_failures, check_space
from tests.tasks.images.conftest import SETTINGS, Slice, make_slice
from tests.tasks.images.test_download import says
from tests.tasks.images.web import Web
from tests.tasks.small_disk import small_disk

pytestmark = pytest.mark.xdist_group("faults")

DNS = "<urlopen error [Errno -3] Temporary failure in name resolution>"
API = "module 'albumentations' has no attribute 'longest_max_size'"


def shard(successes: int, failures: dict[str, int], undecoded: int = 0) -> ShardStats:
    """Return the stats of a shard with 100 attempts."""
    return ShardStats(100, successes, 100 - successes - undecoded, undecoded, failures)


def found(*shards: ShardStats, attempts: int = 100) -> dict[str, bool]:
    """Return the problems found: kind -> whether to stop."""
    settings = DownloadSettings(expected_success_rate=0.6, trouble=TroubleSettings(attempts=attempts))
    return {trouble.kind: trouble.stop for trouble in check_failures(list(shards), settings)}


def test_usual_shard_is_no_trouble() -> None:
    assert found(shard(60, {"HTTP Error 404: Not Found": 25, DNS: 10, "Image decoding error": 5}, undecoded=5)) == {}


def test_name_resolution_warns_then_stops() -> None:
    assert found(shard(60, {DNS: 40})) == {"name resolution": False}
    assert found(shard(30, {DNS: 70}))["name resolution"] is True


def test_broken_decoder_warns_then_stops_and_is_named() -> None:
    assert found(shard(60, {API: 20, "HTTP Error 404: Not Found": 20}, undecoded=20)) == {"decoding": False}
    settings = DownloadSettings(trouble=TroubleSettings(attempts=100))
    (trouble,) = check_failures([shard(5, {"HTTP Error 404: Not Found": 5, API: 90}, undecoded=90)], settings)
    assert trouble.stop and "has no attribute" in trouble.message


def test_low_success_rate_warns_then_stops() -> None:
    assert found(shard(40, {"HTTP Error 403: Forbidden": 60})) == {"success rate": False}
    assert found(shard(20, {"HTTP Error 403: Forbidden": 80})) == {"success rate": True}


def test_only_the_latest_shards_count_and_only_if_they_are_enough() -> None:
    good, bad = shard(60, {DNS: 40}), shard(0, {DNS: 100})
    assert found(bad, attempts=101) == {}
    assert found(bad, shard(60, {"HTTP Error 404: Not Found": 40})) == {}
    assert found(good, bad)["name resolution"] is True


def test_full_disk_is_known_before_the_start(slice_: Slice) -> None:
    settings = SETTINGS.model_copy(update={"trouble": TroubleSettings(free_gb_stop=1e9)})
    with pytest.raises(DownloadError, match=r"stopped.* GB of free space.*free_gb_"):
        slice_.download(says(slice_.root.path, "touch started"), settings)
    assert not (slice_.root.path / "started").exists()


def test_little_space_is_a_warning_said_once(copied: Slice) -> None:
    (copied.root.shards / "00000002_stats.json").rename(copied.root.path / "stats")
    settings = SETTINGS.model_copy(update={"trouble": TroubleSettings(free_gb_warn=1e9, free_gb_stop=0)})
    said: list[str] = []
    brings = says(copied.root.path, f"mv '{copied.root.path}/stats' '{copied.root.shards}/00000002_stats.json'")
    copied.download(brings, settings, Observer(warn=said.append))
    assert len(said) == 1 and "Make room" in said[0]
    assert check_space(copied.root.path, SETTINGS) is None


def test_disk_that_gets_full_is_recognised(tmp_path: Path, web: Web, downloader: DownloaderEnvironment) -> None:
    with small_disk(tmp_path / "disk", "size=1m") as mounted:
        disk = mounted.folder
        slice_ = make_slice(DataRoot(tmp_path / "root"), web, lambda _: "ok")
        slice_.root.shards.parent.mkdir(parents=True, exist_ok=True)
        (disk / "shards").mkdir()
        (disk / "ballast").write_bytes(bytes(940_000))
        slice_.root.shards.symlink_to(disk / "shards")
        with pytest.raises(DownloadError, match=r"The disk of .* is full"):
            slice_.download(downloader, SETTINGS.model_copy(update={"stall_restarts": 2}))


def test_running_download_is_stopped_when_its_shards_are_bad(
    tmp_path: Path, web: Web, downloader: DownloaderEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "POLL_SECONDS", 0.1)
    slice_ = make_slice(DataRoot(tmp_path / "root"), web, lambda number: "html" if number < 15 else "slow")
    web.delay = 3
    settings = SETTINGS.model_copy(update={"trouble": TroubleSettings(attempts=10, free_gb_warn=0, free_gb_stop=0)})
    with pytest.raises(DownloadError, match=r"stopped\. 100% of the last 15 attempts .*Image decoding error"):
        slice_.download(downloader, settings)
    assert (slice_.root.shards / "00000000_stats.json").exists()
    assert not (slice_.root.shards / "00000002_stats.json").exists()
