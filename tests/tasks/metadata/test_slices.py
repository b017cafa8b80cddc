"""Slices: the tutorial's numbers, and the errors for invalid slice files."""

import pickle
from pathlib import Path

import pytest
import yaml

from tasks.contracts.errors import SettingsError
from tasks.contracts.settings import ConvertSettings, DownloadSettings, GateSettings
from tasks.metadata.slices import load_slice, shipped_slices
from tests.tasks.metadata.samples import REPO, REVISION

FILE = {"name": "a.parquet", "rows": 25, "bytes": 10, "sha256": "0" * 64}
PLAIN = {"name": "mine", "repo_id": REPO, "revision": REVISION, "files": [FILE]}


def load(tmp_path: Path, **changes: object):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**PLAIN, **changes}))
    return load_slice(str(path))


def test_the_tutorial_slice_gives_216_shards_and_2133334_attempts():
    tutorial = load_slice("datacomp-1b-tutorial")
    assert tutorial.expected_shards(10_000) == 216
    assert tutorial.expected_attempts == 2_133_334
    assert tutorial.downloader == "official"
    gate = tutorial.gate_settings(GateSettings(), 10_000)
    assert (gate.expected_shards, gate.expected_attempts, gate.minimum_successes) == (216, 2_133_334, 525_000)
    convert = tutorial.convert_settings(ConvertSettings())
    assert (convert.maximum_samples, convert.minimum_train_samples) == (525_000, 512_000)
    assert (convert.source_dataset, convert.source_revision) == (tutorial.repo_id, tutorial.revision)


def test_every_shipped_slice_loads_and_bears_the_name_of_its_file():
    assert "datacomp-1b-tutorial" in shipped_slices()
    for name in shipped_slices():
        assert load_slice(name).name == name


def test_each_file_ends_in_a_shard_of_its_own(tmp_path: Path):
    files = [{**FILE, "name": f"{n}.parquet"} for n in range(3)]
    assert load(tmp_path, files=files).expected_shards(10) == 9
    assert load(tmp_path, files=files).expected_shards(25) == 3


def test_what_the_caller_gives_wins_over_the_slice(tmp_path: Path):
    mine = load(tmp_path, gate={"minimum_successes": 5}, download={"timeout": 3}, convert={"prompt": "Say."})
    assert mine.gate_settings(GateSettings(minimum_successes=1), 10).minimum_successes == 1
    assert mine.gate_settings(GateSettings(expected_shards=None), 10).expected_shards is None
    assert mine.download_settings(DownloadSettings(retries=0)).model_dump(include={"timeout", "retries"}) == {
        "timeout": 3,
        "retries": 0,
    }
    given = mine.convert_settings(ConvertSettings(source_revision="another"))
    assert (given.prompt, given.source_dataset, given.source_revision) == ("Say.", REPO, "another")


def test_what_a_form_sends_untouched_is_not_given(tmp_path: Path):
    """Send every field of a group, as the Prefect UI does after it was opened."""
    mine = load(tmp_path, gate={"minimum_successes": 5}, convert={"prompt": "Say.", "maximum_samples": 9})
    assert mine.gate_settings(GateSettings(**GateSettings().model_dump()), 10).minimum_successes == 5
    form = ConvertSettings(**ConvertSettings(max_samples_per_tar=7).model_dump())
    filled = mine.convert_settings(form)
    assert (filled.prompt, filled.maximum_samples, filled.max_samples_per_tar) == ("Say.", 9, 7)


def test_a_caller_that_contradicts_the_slice_is_told_so():
    with pytest.raises(SettingsError, match=r"maximum_samples .10. is below minimum_train_samples"):
        load_slice("datacomp-1b-tutorial").convert_settings(ConvertSettings(maximum_samples=10))


def test_a_slice_survives_the_way_to_a_worker(tmp_path: Path):
    mine = load(tmp_path, gate={"minimum_successes": 5})
    assert pickle.loads(pickle.dumps(mine)) == mine
    assert pickle.loads(pickle.dumps(mine)).gate_settings(GateSettings(), 10) == mine.gate_settings(GateSettings(), 10)


def test_an_unknown_slice_is_answered_with_the_known_names():
    with pytest.raises(SettingsError, match=r"no slice 'datacomp-xl'; known slices: .*datacomp-1b-tutorial"):
        load_slice("datacomp-xl")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"revision": "main"}, "revision: 'main' is not a commit"),
        ({"revision": REVISION.upper()}, "revision: .* is not a commit"),
        ({"revision": REVISION[:12]}, "revision: .* is not a commit"),
        ({"files": []}, "files: "),
        ({"files": [FILE, FILE]}, "files: pinned more than once: a.parquet"),
        ({"files": [{**FILE, "name": "../a.parquet"}]}, "files.0.name: '../a.parquet' is not a plain file name"),
        ({"files": [{**FILE, "name": "train/a.parquet"}]}, "files.0.name"),
        ({"files": [{**FILE, "name": "a.csv"}]}, "files.0.name"),
        ({"files": [{**FILE, "rows": "25"}]}, "files.0.rows"),
        ({"files": [{**FILE, "rows": 0}]}, "files.0.rows"),
        ({"files": [{**FILE, "sha256": "abc"}]}, "files.0.sha256: 'abc' is not 64"),
        ({"colour": "red"}, "colour: "),
        ({"gate": {"expected_shards": 3}}, "gate: expected_shards follow from the files"),
        ({"gate": {"minimum_sucesses": 3}}, "gate.minimum_sucesses"),
        ({"convert": {"validation_fraction": 1}}, "convert.validation_fraction"),
        ({"download": {"image_size": 2}}, "download.image_size"),
    ],
)
def test_a_bad_field_gets_a_sentence_of_its_own(tmp_path: Path, changes: dict, message: str):
    with pytest.raises(SettingsError, match=message) as caught:
        load(tmp_path, **changes)
    assert "mine.yaml" in str(caught.value)


def test_all_bad_fields_are_named_at_once(tmp_path: Path):
    with pytest.raises(SettingsError, match=r"revision: .*; files\.0\.rows: "):
        load(tmp_path, revision="main", files=[{**FILE, "rows": -1}])


NO_YAML = [b"", b"- a\n- b\n", b"{a: [", b"\xff\xfe\x00", b"just text", b"name: 2026-02-30", b"[" * 9999]


@pytest.mark.parametrize("content", NO_YAML)
def test_a_file_that_is_no_slice_is_refused_in_a_sentence(tmp_path: Path, content: bytes):
    path = tmp_path / "odd.yaml"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=r"odd\.yaml"):
        load_slice(str(path))


def test_a_slice_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(SettingsError, match=r"nowhere\.yaml"):
        load_slice(str(tmp_path / "nowhere.yaml"))
