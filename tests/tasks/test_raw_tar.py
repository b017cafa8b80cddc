"""Raw tars as they are read: their order, their samples, and every kind of damage."""

import gzip
import random
import tarfile

import pytest

from tasks.contracts.errors import ShardError
from tasks.io import raw_tar
from tasks.io.raw_tar import hidden_tars, list_raw_tars, read_tar
from tests.tasks.raw_shards import sample, tar_bytes, without_end

BLOCK = tarfile.BLOCKSIZE


@pytest.fixture
def contents_of(tmp_path):
    """Return a function that reads a tar of the given members or bytes."""

    def read(tar, **options):
        path = tmp_path / "00000000.tar"
        path.write_bytes(tar if isinstance(tar, bytes) else tar_bytes(tar, **options))
        return read_tar(path)

    return read


def header(name, size=0, type=tarfile.REGTYPE, data=b""):
    """Return a header block with its data; ``size`` may be impossible for a file."""
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = max(size, 0), type, "elsewhere"
    block = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    if size < 0:
        block[124:136] = (256**12 + size).to_bytes(12, "big")
        block[148:156] = b" " * 8
        block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block) + data.ljust(-(-len(data) // BLOCK) * BLOCK, b"\0")


def keys(contents):
    return [group.key for group in contents.groups]


def extensions(contents):
    return [[member.extension for member in group.members] for group in contents.groups]


def test_tars_come_in_the_order_of_their_names_whatever_the_folder_says(tmp_path):
    for number in (3, 0, 12, 7):
        (tmp_path / f"{number:08d}.tar").touch()
    (tmp_path / "00000001.parquet").touch()
    (tmp_path / ".00000002.tar").touch()
    assert [path.name for path in list_raw_tars(tmp_path)] == [f"{n:08d}.tar" for n in (0, 3, 7, 12)]
    assert hidden_tars(tmp_path) == [".00000002.tar"]


def test_tars_whose_names_differ_in_length_are_refused(tmp_path):
    (tmp_path / "9.tar").touch()
    (tmp_path / "10.tar").touch()
    with pytest.raises(ShardError, match=r"10\.tar and 9\.tar differ in length"):
        list_raw_tars(tmp_path)


def test_a_folder_without_tars_and_no_folder_at_all_are_refused(tmp_path):
    with pytest.raises(ShardError, match=r"holds no \*\.tar"):
        list_raw_tars(tmp_path)
    with pytest.raises(ShardError, match="is not a folder"):
        list_raw_tars(tmp_path / "nowhere")


@pytest.mark.parametrize("what", ["folder", "broken link"])
def test_a_tar_that_is_no_file_is_refused_by_name(tmp_path, what):
    (tmp_path / "00000000.tar").touch()
    odd = tmp_path / "00000001.tar"
    odd.mkdir() if what == "folder" else odd.symlink_to("gone")
    with pytest.raises(ShardError, match=r"00000001\.tar is not a file"):
        list_raw_tars(tmp_path)


def test_a_shard_linked_from_elsewhere_is_a_shard(tmp_path):
    (tmp_path / "elsewhere").touch()
    (tmp_path / "00000000.tar").symlink_to("elsewhere")
    assert len(list_raw_tars(tmp_path)) == 1


def test_member_offsets_lead_to_the_member_bytes(contents_of, tmp_path):
    members = [*sample("a", 1), *sample("b", 2)]
    contents = contents_of(members)
    data = (tmp_path / "00000000.tar").read_bytes()
    found = [data[m.offset : m.offset + m.size] for group in contents.groups for m in group.members]
    assert found == [content for _, content in members]
    assert (keys(contents), contents.troubles, contents.end) == (["a", "b"], (), "complete")
    assert [data[g.offset : g.offset + 5] for g in contents.groups] == [b"a.jpg", b"b.jpg"]


def test_a_key_that_returns_later_starts_a_new_group(contents_of):
    contents = contents_of([("a.jpg", b"1"), ("b.jpg", b"2"), ("a.json", b"{}")])
    assert (keys(contents), contents.troubles) == (["a", "b", "a"], ())


def test_the_same_member_twice_in_a_sample_is_a_trouble_that_names_it(contents_of):
    contents = contents_of([*sample("a"), *sample("b"), ("b.jpg", b"again")])
    (trouble,) = contents.troubles
    assert trouble.member == "b.jpg"
    assert "twice" in trouble.message and "'b'" in trouble.message
    assert trouble.groups_before == 1


def test_a_whole_sample_doubled_in_a_row_is_a_trouble(contents_of):
    assert len(contents_of([*sample("a"), *sample("a")]).troubles) == 3


def test_a_member_without_extension_is_a_trouble_that_names_it(contents_of):
    contents = contents_of([*sample("a"), *sample("b"), ("folder.with.dot/README", b"x"), *sample("c")])
    (trouble,) = contents.troubles
    assert (trouble.member, trouble.message) == ("folder.with.dot/README", "has no extension")
    assert keys(contents) == ["a", "b", "c"]


def test_folder_parts_of_names_are_dropped(contents_of):
    contents = contents_of([("./a.jpg", b""), ("deep/er/a.json", b""), ("/abs/a.txt", b"")])
    assert (keys(contents), extensions(contents)) == (["a"], [["jpg", "json", "txt"]])


@pytest.mark.parametrize("end", ["/.", "/", "/././", "//"])
def test_a_slash_or_dot_at_the_end_of_a_name_is_no_part_of_it(contents_of, end):
    contents = contents_of(header(f"deep/a.jpg{end}") + tar_bytes([("a.json", b"{}"), ("a.txt", b"t")]))
    assert (keys(contents), extensions(contents)) == (["a"], [["jpg", "json", "txt"]])
    assert contents.troubles == ()


def test_names_without_any_part_are_troubles(contents_of):
    assert [t.message for t in contents_of([(".", b""), ("/", b""), ("./.", b"")]).troubles] == ["has no extension"] * 3


def test_only_the_last_dot_parts_key_and_extension(contents_of):
    contents = contents_of([("a.b.jpg", b""), ("a.b.tar.gz", b""), (".jpg", b""), ("c.", b"")])
    assert keys(contents) == ["a.b", "a.b.tar", "", "c"]
    assert extensions(contents) == [["jpg"], ["gz"], ["jpg"], [""]]


def test_extensions_keep_their_case_and_mac_files_are_samples_of_their_own(contents_of):
    contents = contents_of([("._a.jpg", b"mac"), ("a.JPG", b""), ("a.jpg", b"")])
    assert keys(contents) == ["._a", "a"]
    assert extensions(contents) == [["jpg"], ["JPG", "jpg"]]


@pytest.mark.parametrize(
    "kind", [tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE]
)
def test_folders_links_and_devices_count_as_nothing(contents_of, kind):
    first, rest = sample("a")[:1], sample("a")[1:]
    contents = contents_of(without_end(tar_bytes(first)) + header("a.odd", 0, kind) + tar_bytes(rest))
    assert (keys(contents), extensions(contents)) == (["a"], [["jpg", "json", "txt"]])
    assert contents.other_members == ("a.odd",)
    assert (contents.troubles, contents.end) == ((), "complete")


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_are_read_in_gnu_and_pax_form(contents_of, format):
    name = "ü" * 150
    contents = contents_of([(f"{name}.jpg", b"1"), (f"{name}.json", b"22")], format=format)
    assert (keys(contents), extensions(contents)) == ([name], [["jpg", "json"]])
    assert [member.size for member in contents.groups[0].members] == [1, 2]


def test_a_size_in_a_pax_header_counts(contents_of, tmp_path):
    info = tarfile.TarInfo("a.jpg")
    info.size, info.pax_headers = 0, {"size": "700"}
    pax = info.create_pax_header(info.get_info() | {"size": 0}, "utf-8")
    contents = contents_of(pax + b"x" * 700 + b"\0" * 324 + tar_bytes([("a.txt", b"t")]))
    assert [(m.extension, m.size) for m in contents.groups[0].members] == [("jpg", 700), ("txt", 1)]


def test_a_name_that_is_no_utf8_survives(contents_of):
    contents = contents_of([("\udcff.jpg", b""), ("a.\udcfe", b"")])
    assert (keys(contents), extensions(contents)) == (["\udcff", "a"], [["jpg"], ["\udcfe"]])


def test_troubles_can_be_printed_even_if_names_cannot(contents_of):
    (trouble,) = contents_of([("caf\udce9", b"")]).troubles
    assert trouble.member == "caf\\udce9"


def test_a_sparse_file_is_a_trouble_that_names_it(contents_of):
    contents = contents_of(header("a.jpg", 0, tarfile.GNUTYPE_SPARSE) + tar_bytes(sample("b")))
    (trouble,) = contents.troubles
    assert trouble.member == "a.jpg" and "sparse" in trouble.message
    assert keys(contents) == ["b"]


def test_a_damaged_header_in_the_middle_is_a_trouble_and_earlier_samples_stand(contents_of):
    raw = tar_bytes([*sample("0"), *sample("a"), *sample("b"), *sample("c")])
    contents = contents_of(raw.replace(b"b.jpg", b"X.jpg", 1))  # the header's checksum is no longer valid
    (trouble,) = contents.troubles
    assert "is damaged at byte" in trouble.message and trouble.member == "a.txt"
    assert (keys(contents), trouble.groups_before, contents.end) == (["0"], 1, "missing")


def test_a_tar_cut_anywhere_never_passes_for_a_whole_one(contents_of):
    raw = tar_bytes([*sample("a"), *sample("b")])
    end = len(without_end(raw))
    rng = random.Random(1)
    for cut in [*rng.sample(range(end), 60), 1, BLOCK - 1, BLOCK, BLOCK + 1, end - 1]:
        contents = contents_of(raw[:cut])
        assert contents.end == "missing"
        assert len(contents.groups) < 2 or cut >= end - BLOCK
        for group in contents.groups:
            assert all(member.offset + member.size <= cut for member in group.members)


def test_cut_data_and_cut_padding_are_troubles(contents_of):
    raw = tar_bytes([("a.jpg", b"x" * 600)])
    for cut in (BLOCK + 599, BLOCK + 601):
        (trouble,) = contents_of(raw[:cut]).troubles
        assert (trouble.member, trouble.groups_before) == ("a.jpg", 0)
        assert "unexpected end of data" in trouble.message


def test_a_missing_end_of_archive_is_told_but_all_samples_stand(contents_of):
    raw = tar_bytes(sample("a"))
    for tail in (b"", b"\0" * BLOCK):
        contents = contents_of(without_end(raw) + tail)
        assert (keys(contents), contents.troubles, contents.end) == (["a"], (), "missing")


def test_data_after_the_end_of_archive_is_told(contents_of):
    raw = tar_bytes(sample("a"))
    assert contents_of(raw + tar_bytes(sample("b"))).end == "trailing data"
    assert contents_of(raw + b"\0" * 100_000).end == "complete"


@pytest.mark.parametrize(
    "raw",
    [b"", b"<!DOCTYPE html><html>busy, try later</html>" * 40, gzip.compress(tar_bytes(sample("a"))), b"\xff" * 4096],
    ids=["zero bytes", "html", "gzip", "rubbish"],
)
def test_what_is_no_tar_at_all_is_a_trouble(contents_of, raw):
    contents = contents_of(raw)
    assert (contents.groups, contents.end, len(contents.troubles)) == ((), "missing", 1)
    assert "cannot be read as a tar" in contents.troubles[0].message


def test_a_tar_of_nothing_but_its_end_is_empty_and_complete(contents_of):
    contents = contents_of(b"\0" * tarfile.RECORDSIZE)
    assert (contents.groups, contents.troubles, contents.end) == ((), (), "complete")


@pytest.mark.parametrize("size", [-512, -(10**9), 2**40, 2**70])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, b"Z", tarfile.GNUTYPE_SPARSE, tarfile.GNUTYPE_LONGNAME, b"x"])
def test_sizes_that_no_file_can_have_neither_hang_nor_crash_the_reader(contents_of, kind, size):
    contents = contents_of(without_end(tar_bytes(sample("a"))) + header("z.z", size, kind))
    assert contents.troubles and contents.end == "missing"


def test_extended_headers_without_end_do_not_crash_the_reader(contents_of):
    assert contents_of(header("x", 1, tarfile.GNUTYPE_LONGNAME, b"n") * 3000).troubles


NEW_BYTES = [b"\x80" + b"\xff" * 11, b"xgLKS17Z", b"0", b"\0", b" ", b"7/", b"\xff.\0", b"0000001", b"0" * 12]


def with_another_header(rng, raw):
    """Return the tar with changed header bytes and a recomputed checksum that is usually valid."""
    block = rng.randrange(0, len(without_end(raw)), BLOCK)
    header = bytearray(raw[block : block + BLOCK])
    start = rng.choice([0, 5, 97, 124, 130, 156, 257, 345])
    header[start : start + rng.randint(1, 12)] = rng.choice([rng.randbytes(12), *NEW_BYTES])
    header = (header + bytes(BLOCK))[:BLOCK]
    if rng.random() < 0.9:
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header)
    return raw[:block] + bytes(header) + raw[block + BLOCK :]


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_hostile_headers_never_crash_the_reader_and_tarfile_alone_sees_the_same(contents_of, monkeypatch, format):
    rng = random.Random(format)
    long_name = "long" * 40 if format != tarfile.USTAR_FORMAT else "folder/" * 15
    raw = tar_bytes([*sample("a"), (f"{long_name}.txt", b"t"), *sample("b")], format=format)
    for _ in range(400):
        hostile = with_another_header(rng, raw)
        plainly = contents_of(hostile)
        with monkeypatch.context() as patch:
            patch.setattr(raw_tar, "_plain_members", lambda file, size: [])
            assert contents_of(hostile) == plainly


def test_a_name_in_a_trouble_commands_no_terminal(contents_of):
    (trouble,) = contents_of([("\x1b[2J\u202eevil", b"")]).troubles
    assert trouble.member == "\\x1b[2J\\u202eevil"
