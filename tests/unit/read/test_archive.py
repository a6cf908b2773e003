"""Packed captures: read as the folder that was packed, or refused in a sentence; nothing leaves the folder for it."""

from __future__ import annotations

import gzip
import io
import lzma
import random
import re
import shutil
import tarfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import BinaryIO

import pytest
import zstandard

from pinprof.base.errors import CaptureError, PinprofError
from pinprof.read import archive, read
from tests.support.h200 import DATA

PACKED = DATA / "calls.pinprof.tar.xz"
PLAIN = lzma.decompress(PACKED.read_bytes())
"""A small capture as a plain archive."""


def member(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.size, made.linkname = kind, size, link
    return made


def with_members(path: Path, *members: tarfile.TarInfo) -> Path:
    """The small capture, and behind it members of zeros."""
    content = io.BytesIO(PLAIN)
    with tarfile.open(fileobj=content, mode="a") as packed:
        for one in members:
            packed.addfile(one, io.BytesIO(bytes(one.size)))
    path.write_bytes(content.getvalue())
    return path


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["tar", "tar.gz", "tar.xz", "tar.zst"])
def test_a_packed_capture_reads_as_the_folder(tmp_path: Path, ending: str) -> None:
    with tarfile.open(fileobj=io.BytesIO(PLAIN)) as packed:
        packed.extractall(tmp_path, filter="data")
    folder = read(next(tmp_path.glob("*.pinprof")))
    pack = {"tar": bytes, "tar.gz": gzip.compress, "tar.xz": lzma.compress, "tar.zst": zstandard.compress}[ending]
    path = tmp_path / f"calls.pinprof.{ending}"
    path.write_bytes(pack(PLAIN))
    capture = read(path)
    assert capture.path == str(path)
    assert (capture.manifest, capture.losses, capture.threads) == (folder.manifest, folder.losses, folder.threads)
    assert capture.samples.weight.tolist() == folder.samples.weight.tolist()
    assert capture.stacks.frames.symbol == folder.stacks.frames.symbol
    assert capture.activity is not None
    assert folder.activity is not None
    assert len(capture.activity.calls) == len(folder.activity.calls) > 0


@pytest.mark.parametrize(
    "added",
    [
        member("calls.pinprof/link", tarfile.SYMTYPE, link="/etc/passwd"),
        member("calls.pinprof/hard", tarfile.LNKTYPE, link="calls.pinprof/manifest.json"),
        member("calls.pinprof/null", tarfile.CHRTYPE),
        member("calls.pinprof/disk", tarfile.BLKTYPE),
        member("calls.pinprof/pipe", tarfile.FIFOTYPE),
        member("../outside"),
        member("calls.pinprof/../../outside"),
        member("/tmp/outside"),
        member("a/b/c/d/e"),
        member("calls.pinprof/more", tarfile.CONTTYPE, 1 << 20),
    ],
    ids=lambda added: added.name,
)
def test_what_no_capture_holds_is_refused(tmp_path: Path, added: tarfile.TarInfo) -> None:
    (tmp_path / "in").mkdir()
    path = with_members(tmp_path / "in" / "x.tar", added)
    if added.type == tarfile.CONTTYPE:
        assert read(path).path == str(path)  # a plain file by another name
        return
    with pytest.raises(CaptureError, match=rf"^{re.escape(str(path))} is an archive that has '"):
        read(path)
    assert [one.name for one in tmp_path.rglob("*")] == ["in", "x.tar"]


def test_a_file_that_comes_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="cannot be unpacked: File exists"):
        read(with_members(tmp_path / "x.tar", member("calls.pinprof/twice"), member("calls.pinprof/twice")))


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How much of each member is written, with what is usual set to a MiB and what is written anyway to none."""
    sizes: list[int] = []
    write = archive.write_sparse

    def counted(chunks: Iterable[bytes], target: BinaryIO) -> None:
        before = target.tell()
        write(chunks, target)
        sizes.append(target.tell() - before)

    monkeypatch.setattr(archive, "write_sparse", counted)
    monkeypatch.setattr(archive, "usual_bytes", lambda path: 1 << 20)
    return sizes


def bomb(path: Path, *, whole: bool, cut: int = 0) -> Path:
    """A small archive that begins with 64 MiB of zeros; the rest of it is a capture where `whole`."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as packed:
        packed.addfile(member("calls.pinprof/perf.data.old", size=64 << 20), io.BytesIO(bytes(64 << 20)))
        if whole:
            with tarfile.open(fileobj=io.BytesIO(PLAIN)) as given:
                for one in given:
                    packed.addfile(one, given.extractfile(one))
    path.write_bytes(lzma.compress(content.getvalue(), preset=0)[: -cut or None])
    return path


@pytest.mark.slow
@pytest.mark.parametrize(("cut", "told"), [(0, "has no capture"), (2000, "damaged archive: truncated xz data")])
def test_what_is_refused_is_refused_before_much_is_written(
    tmp_path: Path, written: list[int], cut: int, told: str
) -> None:
    path = bomb(tmp_path / "x.tar.xz", whole=False, cut=cut)
    assert path.stat().st_size < 100_000
    with pytest.raises(CaptureError, match=told):
        read(path)
    assert written == []


@pytest.mark.slow
def test_more_than_the_size_of_an_archive_allows_is_refused(
    tmp_path: Path, written: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "SPARED_BYTES", 0)
    monkeypatch.setattr(archive, "MOST_RATIO", 50)
    with pytest.raises(CaptureError, match="too many for its own size"):
        read(bomb(tmp_path / "x.tar.xz", whole=True))
    assert written == []


@pytest.mark.slow
def test_an_archive_for_which_there_is_no_room_is_refused(
    tmp_path: Path, written: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 20))
    with pytest.raises(CaptureError, match=r"unpacks to [\d,]+ bytes, and .* has room for 1,048,576") as caught:
        read(bomb(tmp_path / "x.tar.xz", whole=True))
    assert str(tmp_path / "x.tar.xz") in caught.value.problem
    assert written == []


@pytest.mark.slow
def test_a_capture_with_much_beside_it_is_read_and_zeros_take_no_room(
    tmp_path: Path, written: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with archive.unpacked(bomb(tmp_path / "x.tar.xz", whole=True), "x") as folder:
        assert len(read(folder).samples)
        zeros = (folder / "perf.data.old").stat()
    assert (zeros.st_size, zeros.st_blocks) == (64 << 20, 0)


def test_many_members_are_counted_before_they_are_written(
    tmp_path: Path, written: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "_USUAL_MEMBERS", 2)
    monkeypatch.setattr(archive, "MOST_MEMBERS", 6)
    with pytest.raises(CaptureError, match="more than 6 members"):
        read(with_members(tmp_path / "x.tar"))
    assert len(written) <= 2


def test_an_archive_of_something_else_says_what_to_pack(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as packed:
        packed.addfile(member("notes.txt"))
    with pytest.raises(CaptureError, match="has no capture") as raised:
        read(path)
    assert "tar -cJf" in raised.value.remedy


def test_members_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_MEMBERS", 3)
    with pytest.raises(CaptureError, match="more than 3 members"):
        read(with_members(tmp_path / "x.tar"))


def test_a_name_of_a_gigabyte_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.xz"
    head = member("calls.pinprof/x", tarfile.GNUTYPE_LONGNAME, 1 << 20).tobuf()
    path.write_bytes(lzma.compress(head + bytes(1 << 20)))
    with pytest.raises(CaptureError, match="header is too large"):
        read(path)


def test_a_cut_archive_is_called_damaged(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.xz"
    path.write_bytes(PACKED.read_bytes()[:-2000])
    with pytest.raises(CaptureError, match="damaged archive"):
        read(path)


def test_bytes_changed_anywhere_raise_only_errors_of_pinprof(tmp_path: Path) -> None:
    chance, path = random.Random(4), tmp_path / "x.tar"
    heads = [at for at in range(0, len(PLAIN), 512) if PLAIN[at + 257 : at + 262] == b"ustar"]
    for _ in range(40):
        content = bytearray(PLAIN)
        for _ in range(chance.choice((1, 3, 9))):
            content[chance.choice(heads) + chance.randrange(512)] = chance.randrange(256)
        path.write_bytes(content)
        with suppress(PinprofError):
            read(path)


def packed_launch(path: Path, ranks: int, *more: tarfile.TarInfo) -> Path:
    """The small capture as each rank of a launch, and members of zeros."""
    with tarfile.open(path, mode="w:xz") as packed:
        packed.addfile(member("job.ranks", tarfile.DIRTYPE))
        for rank in range(ranks):
            with tarfile.open(fileobj=io.BytesIO(PLAIN)) as given:
                for one in given:
                    content = given.extractfile(one) if one.isreg() else None
                    one.name = "/".join(["job.ranks", f"rank-{rank}.pinprof", *one.name.split("/")[1:]])
                    packed.addfile(one, content)
        for one in more:
            packed.addfile(one, io.BytesIO(bytes(one.size)))
    return path


def test_a_packed_launch_is_unpacked_until_the_block_ends(tmp_path: Path) -> None:
    path = packed_launch(tmp_path / "x.tar.xz", 2)
    assert archive.is_launch(path)
    with archive.unpacked(path, "x") as folder:
        assert folder.name == "job.ranks"
        assert sorted(one.name for one in folder.iterdir()) == ["rank-0.pinprof", "rank-1.pinprof"]
        assert read(folder / "rank-1.pinprof").path == str(folder / "rank-1.pinprof")
    assert not folder.exists()


def test_a_packed_launch_is_no_capture(tmp_path: Path) -> None:
    path = packed_launch(tmp_path / "x.tar.xz", 2)
    with pytest.raises(CaptureError, match=rf"^{re.escape(str(path))} holds the ranks of a launch"):
        read(path)
    assert not archive.is_launch(PACKED)


@pytest.mark.parametrize("name", ["job.ranks/../../outside", "job.ranks/rank-0.pinprof/gpu/more/deeper", "/outside"])
def test_what_no_launch_holds_is_refused(tmp_path: Path, name: str) -> None:
    path = packed_launch(tmp_path / "x.tar.xz", 1, member(name))
    with pytest.raises(CaptureError, match=r"which is not a path inside a capture"), archive.unpacked(path, "x"):
        pass
    assert [one.name for one in tmp_path.rglob("*")] == ["x.tar.xz"]


def test_two_captures_that_are_no_launch_are_refused(tmp_path: Path) -> None:
    path = with_members(tmp_path / "x.tar", member("other.pinprof/manifest.json"))
    with pytest.raises(CaptureError, match="several captures"):
        read(path)
