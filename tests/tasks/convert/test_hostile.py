"""Hostile data: nothing is written outside the output folder, odd samples are counted, and memory stays bounded."""

import io
import json
import os
import struct
import subprocess
import sys
import tarfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tasks.audit.models import AuditJob
from tasks.audit.shard import MAX_FINDINGS, audit_shard
from tasks.contracts.errors import PlanError
from tasks.contracts.settings import CheckSettings, ConvertSettings
from tasks.convert.conversion import Conversion
from tasks.convert.output_tar import member_header
from tasks.convert.sample import UnusableSampleError, conversation_json, judge, parse
from tasks.energon.index import index_dataset
from tasks.energon.loader import check_loader
from tests.conftest import ROOT
from tests.tasks.convert.defects import DEFECTS
from tests.tasks.convert.serial import convert, scan_and_plan
from tests.tasks.raw_shards import picture, sample, tar_bytes, without_end, write_shard, write_stats

ODD = ["good, chat markers", "good, media marker", "good, extreme aspect", "good, extreme aspect upright"]
PICTURE = picture(0)
PLAIN = ["good", "good, no marker", "good, nearly extreme aspect"]


def odd_shard(folder: Path) -> Path:
    write_shard(folder, 0, [DEFECTS[name](f"{n:09d}", n) for n, name in enumerate([*ODD, *PLAIN])])
    return folder


def test_odd_samples_stay_and_are_counted_by_default(tmp_path: Path) -> None:
    raw = odd_shard(tmp_path / "raw")
    plan = scan_and_plan(Conversion(raw, tmp_path / "out", None, ConvertSettings()))
    assert plan.oddities == {"chat_marker": 2, "extreme_aspect_ratio": 2, "not_finite": 0}
    assert plan.contract_version == 1
    assert plan.counts.skipped == 0
    assert json.loads((tmp_path / "out" / ".prepare" / "plan.json").read_bytes())["oddities"] == plan.oddities


NOT_FINITE = [b"NaN", b"-Infinity", b"1e400", b'{"deep": [1, [-1e999]]}']


@pytest.mark.parametrize("value", NOT_FINITE)
def test_source_field_that_is_not_finite_becomes_null_and_raises_the_contract(tmp_path: Path, value: bytes) -> None:
    raw, out = tmp_path / "raw", tmp_path / "out"
    members = sample("000000000", 0)
    changed = members[1][1].replace(b'"width": 24', b'"width": ' + value)
    assert changed != members[1][1]
    write_shard(raw, 0, [sample("000000000", 0, raw_json=changed), sample("000000001", 1)])
    manifest = convert(raw, out, ConvertSettings(validation_fraction=0))
    assert manifest["oddities"]["not_finite"] == 1
    assert manifest["contract_version"] == 2 and manifest["counts"]["train"] == 2
    with tarfile.open(out / "train-shard-000000.tar") as tar:
        texts = [tar.extractfile(name).read() for name in tar.getnames() if name.endswith(".json")]  # type: ignore[union-attr]
    sources = [json.loads(text, parse_constant=pytest.fail)["source"] for text in texts]
    assert [source["width"] for source in sources] == [None, 24]
    assert convert(raw, out, ConvertSettings(validation_fraction=0)) == manifest


def test_settings_that_drop_belong_to_the_plan_only_where_they_are_on(tmp_path: Path) -> None:
    raw, out = odd_shard(tmp_path / "raw"), tmp_path / "out"
    assert "drop_chat_markers" not in convert(raw, out, ConvertSettings())["settings"]
    with pytest.raises(PlanError, match="drop_chat_markers is True, was None"):
        convert(raw, out, ConvertSettings(drop_chat_markers=True))
    manifest = convert(raw, tmp_path / "dropped", ConvertSettings(drop_chat_markers=True))
    assert manifest["settings"]["drop_chat_markers"] is True
    with pytest.raises(PlanError, match="drop_chat_markers is None, was True"):
        convert(raw, tmp_path / "dropped", ConvertSettings())


@given(
    url=st.recursive(st.text(st.characters()), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)),
    more=st.text(st.sampled_from("a\ud83d\ude00\udfff\0é\\u")),
    ascii_only=st.booleans(),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32-be"]),
)
def test_what_is_called_usable_can_be_written(url: object, more: str, ascii_only: bool, encoding: str) -> None:
    record = {"key": "1", "uid": "0" * 32, "status": "success", "face_bboxes": [], "url": url, "sha256": more}
    json_bytes = json.dumps(record, ensure_ascii=ascii_only).encode(encoding, "surrogatepass")
    verdict = judge("1", PICTURE, json_bytes, b"a caption")
    try:
        conversation_json(*parse(json_bytes, b"a caption"), prompt="", source={})
    except UnusableSampleError as error:
        assert (verdict.before_uid, verdict.cause) == ("invalid_sample", str(error))
    else:
        assert (verdict.before_uid, verdict.after_uid) == (None, None)


def test_hostile_captions_and_urls_come_back_from_energons_loader_unchanged(tmp_path: Path) -> None:
    raw, out = tmp_path / "raw", tmp_path / "out"
    good = [name for name in DEFECTS if name.startswith("good")]
    write_shard(raw, 0, [DEFECTS[name](f"{n:09d}", n) for n, name in enumerate(good)])
    manifest = convert(raw, out, ConvertSettings(validation_fraction=0))
    assert manifest["counts"]["train"] == len(good)
    index_dataset(out)
    assert check_loader(out, "train", CheckSettings()).samples == len(good)
    with tarfile.open(raw / "00000000.tar") as tar:
        captions = [_text(tar, info) for info in tar if info.name.endswith(".txt")]
    with tarfile.open(out / "train-shard-000000.tar") as tar:
        turns = [json.loads(_text(tar, info)) for info in tar if info.name.endswith(".conversation.json")]
    assert [turn["conversation"][1]["content"][0]["text"] for turn in turns] == captions


def _text(tar: tarfile.TarFile, info: tarfile.TarInfo) -> str:
    file = tar.extractfile(info)
    assert file
    return file.read().decode()


def hostile_members() -> bytes:
    """Return a tar whose names and links point outside; whole samples have absolute and climbing names."""
    tar = io.BytesIO(without_end(tar_bytes([(f"/../../etc/{n}", data) for n, data in sample("a", 1)])))
    tar.seek(0, io.SEEK_END)
    with tarfile.open(fileobj=tar, mode="w") as out:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE):
            info = tarfile.TarInfo("../evil.jpg")
            info.type, info.linkname = kind, "/etc/passwd"
            out.addfile(info)
        for name, data in [*sample("../b", 2, key="b"), ("._b.jpg", b"mac"), *sample(f"{'c' * 300}", 3)]:
            info = tarfile.TarInfo(f"/abs/{name}")
            info.size = len(data)
            out.addfile(info, io.BytesIO(data))
    return tar.getvalue()


def test_names_that_climb_or_link_elsewhere_write_nothing_outside(tmp_path: Path) -> None:
    raw, out = tmp_path / "deep" / "raw", tmp_path / "deep" / "out"
    raw.mkdir(parents=True)
    (raw / "00000000.tar").write_bytes(hostile_members())
    before = {path for path in tmp_path.rglob("*") if out not in path.parents}
    audit_shard(AuditJob(shards_dir=raw, audit_dir=out / "audit", shard="00000000"))
    manifest = convert(raw, out / "energon", ConvertSettings(validation_fraction=0))
    assert manifest["counts"]["train"] == 3
    assert manifest["counts"]["skip_reasons"] == {"missing_json_txt": 1}
    assert {path for path in tmp_path.rglob("*") if out not in path.parents} == before | {out}
    with tarfile.open(out / "energon" / "train-shard-000000.tar") as tar:
        assert all(member.isreg() and "/" not in member.name for member in tar)


def test_a_hundred_thousand_tiny_members_are_rejects_with_a_bounded_receipt(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    members = b"".join(member_header(f"{number:09d}.txt", 0) for number in range(100_000))
    (raw / "00000000.tar").write_bytes(members + bytes(1024))
    write_stats(raw, 0, 0)
    audit = audit_shard(AuditJob(shards_dir=raw, audit_dir=tmp_path / "audit", shard="00000000"))
    assert len(audit.findings) == MAX_FINDINGS + 1
    assert "and 99,000 more findings" in audit.findings[-1].message
    plan = scan_and_plan(Conversion(raw, tmp_path / "out", tmp_path / "audit", ConvertSettings()))
    assert plan.counts.skip_reasons == {"missing_jpg_json": 100_000}
    assert pq.read_metadata(tmp_path / "out" / ".prepare" / "rejects.parquet").num_rows == 100_000


def claiming(jpg: bytes, width: int, height: int) -> bytes:
    """Return the picture with another size in its header."""
    place = jpg.index(b"\xff\xc2") + 5
    return jpg[:place] + struct.pack(">HH", height, width) + jpg[place + 4 :]


PEAK = """
import re, sys
from pathlib import Path
from tasks.convert.jpeg import check_jpeg
fault = check_jpeg(sys.stdin.buffer.read()).fault
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024, fault)
"""


def check_apart(jpg: bytes, jpegmem: str | None = None) -> tuple[int, str]:
    """Check a picture in a separate process; return its peak memory in MB, and the fault."""
    environment = {name: value for name, value in os.environ.items() if name != "JPEGMEM"}
    environment |= {"JPEGMEM": jpegmem} if jpegmem else {}
    command = [sys.executable, "-c", PEAK]
    done = subprocess.run(command, input=jpg, capture_output=True, cwd=ROOT, env=environment, check=True, timeout=120)
    peak, _, fault = done.stdout.decode().strip().partition(" ")
    return int(peak), fault


def test_a_small_file_that_claims_a_huge_progressive_picture_takes_no_memory(tmp_path: Path) -> None:
    jpg = claiming(picture(1, (64, 64), progressive=True, subsampling=0), 13_000, 13_000)
    peak, fault = check_apart(jpg)
    assert peak < 400, "MB"
    assert "does not decode" in fault and "13000 x 13000 pixels" in fault


@pytest.mark.parametrize("jpegmem", ["1M", None])
def test_a_sound_progressive_picture_passes_whatever_memory_it_takes(jpegmem: str | None) -> None:
    data = io.BytesIO()
    Image.new("RGB", (11_000, 11_000)).save(data, "JPEG", progressive=True, subsampling=0)
    peak, fault = check_apart(data.getvalue(), jpegmem)
    assert fault == "None"
    assert 640 < peak < 1600, "MB"
