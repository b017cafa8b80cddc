"""Receipts: valid only for the same work, and only while its files exist unchanged."""

import json

import pytest
from pydantic import BaseModel

from tasks.io.fingerprints import Fingerprints
from tasks.io.receipts import Receipt, note_timing, read_receipt


class Numbers(BaseModel):
    samples: int


def receipt(**changes):
    fields = {"stage": "scan", "stage_version": 1, "inputs": {"tar": "abc"}, "counts": {"samples": 3}}
    return Receipt(**{**fields, **changes})


def test_a_receipt_reads_back_as_it_was_written(tmp_path):
    written = receipt(counts={"names": ["caf\\udce9", "ü"], "none": None})
    written.write(tmp_path / "receipt.json")
    assert read_receipt(tmp_path / "receipt.json") == written


def test_equal_work_gives_equal_bytes(tmp_path):
    receipt(inputs={"a": 1, "b": 2}).write(tmp_path / "one")
    receipt(inputs={"b": 2, "a": 1}).write(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize("change", [{"stage": "audit"}, {"stage_version": 2}, {"inputs": {}}, {"settings": {"x": 1}}])
def test_a_receipt_of_other_work_is_told_apart(change):
    assert receipt().is_for(receipt(counts={}))
    assert not receipt().is_for(receipt(**change))


@pytest.mark.parametrize(
    "rubbish",
    [b"", b"{", b"null", b"[]", b"7", b"{}", b"\xff\xfe", b"[" * 100_000, b'{"stage": 1, "stage_version": "x"}'],
)
def test_what_is_no_receipt_counts_as_none(tmp_path, rubbish):
    (tmp_path / "receipt.json").write_bytes(rubbish)
    assert read_receipt(tmp_path / "receipt.json") is None


def test_a_receipt_with_fields_of_another_version_counts_as_none(tmp_path):
    fields = receipt().model_dump(mode="json") | {"new_field": 1}
    (tmp_path / "receipt.json").write_text(json.dumps(fields))
    assert read_receipt(tmp_path / "receipt.json") is None


def test_a_missing_receipt_counts_as_none(tmp_path):
    (tmp_path / "file").touch()
    assert read_receipt(tmp_path / "nothing.json") is None
    assert read_receipt(tmp_path / "file" / "nothing.json") is None


@pytest.mark.parametrize("counts", [{}, {"samples": "many"}, {"samples": None}, {"samples": [1]}])
def test_counts_of_the_wrong_kind_count_as_none(counts):
    assert receipt(counts=counts).counts_as(Numbers) is None
    assert receipt().counts_as(Numbers) == Numbers(samples=3)


@pytest.mark.parametrize("harm", ["delete", "cut", "flip"])
def test_outputs_that_were_harmed_are_noticed(tmp_path, harm):
    notes, path = Fingerprints(tmp_path / "notes"), tmp_path / "out.tar"
    path.write_bytes(b"content")
    written = receipt(outputs=[notes.of(path)])
    assert written.outputs_intact(tmp_path, notes)
    path.unlink() if harm == "delete" else path.write_bytes(b"conten" if harm == "cut" else b"cOntent")
    assert not written.outputs_intact(tmp_path, notes)


def test_timings_are_lines_of_a_file_of_their_own(tmp_path):
    note_timing(tmp_path / "new", "scan", 1.23456, {"samples": 3})
    note_timing(tmp_path / "new", "plan", 0.5, {})
    lines = [json.loads(line) for line in (tmp_path / "new" / "timings.jsonl").read_text().splitlines()]
    assert [(line["name"], line["seconds"]) for line in lines] == [("scan", 1.235), ("plan", 0.5)]
