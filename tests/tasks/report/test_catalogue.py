"""The catalogue shows the conversion's result for every sample."""

import shutil
import tarfile
from collections import Counter

import pytest

from tasks.contracts.errors import DatasetError, ShardError
from tasks.contracts.layout import DataRoot
from tasks.contracts.settings import ConvertSettings
from tasks.report.catalogue import read_catalogue
from tasks.report.pictures import read_samples
from tasks.report.places import places_in_root, places_of_dataset
from tasks.report.raw_folder import read_raw_folder
from tests.golden import copy_shards
from tests.tasks.convert.serial import convert


def test_every_emitted_sample_has_split_and_bytes_of_the_output_tars(data, catalogue):
    written = {}
    for path in sorted(data.dataset("energon").glob("*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                if member.name.endswith(".image.jpg"):
                    file = tar.extractfile(member)
                    written[member.name.split(".")[0]] = (path.name.split("-")[0], file.read())
    rows = catalogue.emitted.tolist()
    entries = catalogue.table.take(rows).to_pylist()
    samples = read_samples(catalogue, rows)
    found = {e["uid"]: (e["split"], s.jpg) for e, s in zip(entries, samples, strict=True)}
    assert found == written
    assert {split for split, _ in found.values()} == {"train", "val"}


@pytest.mark.parametrize("settings", [{}, {"maximum_samples": 90}])
def test_reasons_and_splits_add_up_to_the_manifest_on_shards_with_every_defect(tmp_path, settings):
    data = DataRoot(tmp_path)
    copy_shards("golden+defects", data.shards)
    manifest = convert(data.shards, data.dataset("energon"), ConvertSettings(**settings))
    catalogue = read_catalogue(places_in_root(data, "energon"))
    counts = manifest["counts"]
    assert len(catalogue) == counts["input_samples"]
    assert Counter(catalogue.table["split"].to_pylist())["val"] == counts["val"]
    reasons = Counter(catalogue.table["reason"].to_pylist())
    assert reasons.pop("") == counts["train"] + counts["val"]
    assert reasons == counts["skip_reasons"]


def test_raw_folder_gives_the_same_samples_with_and_without_indexes(data, tmp_path):
    indexed = read_raw_folder(data.shards, data.audit)
    from_headers = read_raw_folder(data.shards, None)
    assert indexed.table.equals(from_headers.table)
    assert len(indexed) == 60


def test_raw_folder_ignores_the_index_of_a_tar_that_has_changed(tmp_path):
    from tests.tasks.raw_shards import sample, write_shard
    from tests.tasks.report.dataset import prepared_root

    data = prepared_root(tmp_path)
    write_shard(data.shards, 0, [sample("k", 1)])
    assert read_raw_folder(data.shards, data.audit).table["key"].to_pylist()[:1] == ["k"]
    assert len(read_raw_folder(data.shards, data.audit)) == 41


def test_missing_or_contradicting_tables_are_a_sentence(tmp_path, data):
    with pytest.raises(DatasetError, match=r"plan\.json is missing"):
        places_in_root(data, "nosuch")
    with pytest.raises(DatasetError, match="shards_dir"):
        places_of_dataset(tmp_path / "energon")
    with pytest.raises(ShardError, match="holds no"):
        read_raw_folder(tmp_path, None)
    places = places_of_dataset(_copy_without_scan(data, tmp_path), data.shards)
    with pytest.raises(DatasetError, match="convert the shards again"):
        read_catalogue(places)


def _copy_without_scan(data, tmp_path):
    target = tmp_path / "energon" / ".prepare"
    target.mkdir(parents=True)
    source = data.dataset("energon") / ".prepare"
    for name in ("plan.json", "rejects.parquet"):
        (target / name).write_bytes((source / name).read_bytes())
    shutil.copytree(source / "plan", target / "plan")
    return tmp_path / "energon"
