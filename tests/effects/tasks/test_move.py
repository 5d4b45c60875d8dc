"""FILE_MOVE: one rename on one filesystem, copy and remove across two, and never over anything that exists."""

import os
from pathlib import Path

import pytest

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.effects.tasks.files import MOVE
from remit.fs.openat import inspect_file
from tests.effects.tasks.task_folder import Place, world
from tests.support.small_disks import only_root

TIME = 1_500_000_000_123_456_789


@pytest.mark.req("FX-06", "FX-09", "FX-10", "EI-13")
@pytest.mark.parametrize("reversible", [True, False])
def test_a_moved_file_is_the_same_file_under_its_new_name(place: Place, reversible: bool) -> None:  # noqa: FBT001
    source, target = place.file("a.txt", b"moved", 0o640), place.there / "b.txt"
    inode = source.stat().st_ino
    output = place.run("FILE_MOVE", source_path=source, destination_path=target, reversible=reversible)
    assert not source.exists()
    assert (target.read_bytes(), target.stat().st_ino, target.stat().st_mode & 0o777) == (b"moved", inode, 0o640)
    assert output == {
        "result_summary": {"source": str(source), "destination": str(target)},
        "undo_metadata": {"original_path": str(source)},
    }
    assert place.notes == [], "nothing was copied"


@only_root
@pytest.mark.req("FX-06", "FX-09")
@pytest.mark.parametrize("size", [0, 1, 4096, 3_000_001])
def test_a_move_to_another_filesystem_keeps_bytes_mode_and_times(two_disks: Place, size: int) -> None:
    content = os.urandom(size)
    source, target = two_disks.file("a.bin", content, 0o750), two_disks.there / "b.bin"
    os.utime(source, ns=(TIME, TIME + 1))
    two_disks.run("FILE_MOVE", source_path=source, destination_path=target)
    assert not source.exists()
    found = target.stat()
    assert (target.read_bytes(), found.st_mode & 0o7777) == (content, 0o750)
    assert (found.st_atime_ns, found.st_mtime_ns) == (TIME, TIME + 1)
    assert [*world(two_disks.here, two_disks.there)] == [str(target)], "and nothing else is left"


@only_root
@pytest.mark.req("FX-06")
@pytest.mark.parametrize("trait", ["owner", "group", "setuid", "attribute"])
def test_a_move_that_would_lose_something_of_the_file_is_refused(two_disks: Place, trait: str) -> None:
    source, target = two_disks.file("a"), two_disks.there / "b"
    match trait:
        case "owner":
            os.chown(source, 12345, -1)
        case "group":
            os.chown(source, -1, 12345)
        case "setuid":
            source.chmod(0o4755)
        case _:
            os.setxattr(source, "user.comment", b"kept")
    was = world(two_disks.here, two_disks.there)
    with pytest.raises(RefusedError, match=r"to another filesystem (would lose|without changing)"):
        two_disks.run("FILE_MOVE", source_path=source, destination_path=target)
    assert world(two_disks.here, two_disks.there) == was


@pytest.mark.req("FX-06")
def test_a_move_on_one_filesystem_loses_nothing_of_the_file(place: Place) -> None:
    source, target = place.file("a", mode=0o4755), place.there / "b"
    os.setxattr(source, "user.comment", b"kept")
    place.run("FILE_MOVE", source_path=source, destination_path=target)
    assert os.getxattr(target, "user.comment") == b"kept"
    assert target.stat().st_mode & 0o7777 == 0o4755


@pytest.mark.req("FX-03")
@pytest.mark.parametrize("kind", ["file", "empty file", "folder", "link", "dangling link"])
def test_an_existing_destination_is_never_overwritten_even_if_it_appears_at_the_last_moment(
    place: Place, kind: str
) -> None:
    source, target = place.file("a"), place.there / "b"
    work = place.prepare("FILE_MOVE", source_path=source, destination_path=target)
    _make(kind, target, place)
    was = world(place.root)
    with pytest.raises(RefusedError) as caught:
        MOVE.run(work)
    assert (caught.value.reason, caught.value.where) == (Reason.FILE_CONFLICT, str(target))
    assert world(place.root) == was


@pytest.mark.req("FX-03")
def test_a_destination_that_appears_between_the_check_and_the_rename_stays(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = place.file("a", b"mine"), place.there / "b"
    work = place.prepare("FILE_MOVE", source_path=source, destination_path=target)

    def look_away(_spot: object) -> None:
        target.write_bytes(b"theirs")  # after the check that nothing is there

    monkeypatch.setattr("remit.effects.tasks.file_steps.require_free", look_away)
    with pytest.raises(RefusedError, match="never overwritten"):
        MOVE.run(work)
    assert (source.read_bytes(), target.read_bytes()) == (b"mine", b"theirs")


@pytest.mark.req("FX-05")
@pytest.mark.parametrize("meanwhile", ["rewritten", "replaced", "chmod", "gone", "hard link", "link"])
def test_a_source_that_is_not_as_it_was_looked_at_is_refused(place: Place, meanwhile: str) -> None:
    source, target = place.file("a"), place.there / "b"
    work = place.prepare("FILE_MOVE", source_path=source, destination_path=target)
    _change(meanwhile, source, place)
    was = world(place.root)
    with pytest.raises(RefusedError):
        MOVE.run(work)
    assert world(place.root) == was


@pytest.mark.req("FX-05")
@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_file_that_is_exchanged_in_the_instant_of_the_rename_gets_its_name_back(
    place: Place, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    source, target = place.file("a", b"mine"), place.there / "b"
    work = place.prepare("FILE_MOVE", source_path=source, destination_path=target)

    def exchange(folder: int, name: str, *, where: str) -> object:
        seen = inspect_file(folder, name, where=where)
        source.unlink()
        _make(kind, source, place)
        return seen

    monkeypatch.setattr("remit.effects.tasks.file_steps.inspect_file", exchange)
    with pytest.raises(RefusedError, match="changed or replaced"):
        MOVE.run(work)
    assert not os.path.lexists(target)
    assert source.is_symlink() if kind == "link" else source.read_bytes() == b"other"


def test_the_source_is_its_own_destination_only_for_those_who_are_refused(place: Place) -> None:
    source = place.file("a")
    with pytest.raises(RefusedError, match="exists here already"):
        place.run("FILE_MOVE", source_path=source, destination_path=source)
    assert source.exists()


@only_root
@pytest.mark.req("FX-06")
def test_a_full_disk_leaves_the_source_and_nothing_at_the_destination(two_disks: Place) -> None:
    filler = two_disks.there / "filler"
    with filler.open("wb") as stream:
        os.posix_fallocate(stream.fileno(), 0, 94 << 20)
    source, target = two_disks.file("a", os.urandom(4 << 20)), two_disks.there / "b"
    with pytest.raises(EnvironmentFailureError) as caught:
        two_disks.run("FILE_MOVE", source_path=source, destination_path=target)
    assert caught.value.reason is Reason.DISK_FULL
    assert source.stat().st_size == 4 << 20
    assert [*two_disks.there.iterdir()] == [filler]


@only_root
def test_a_planted_part_file_is_refused_and_left_alone(two_disks: Place) -> None:
    source, target = two_disks.file("a"), two_disks.there / "b"
    work = two_disks.prepare("FILE_MOVE", source_path=source, destination_path=target)
    planted = two_disks.there / work.part_name
    planted.write_bytes(b"planted")
    with pytest.raises(RefusedError, match="exists already, and the task needs this name"):
        MOVE.run(work)
    assert (source.exists(), planted.read_bytes(), target.exists()) == (True, b"planted", False)


@only_root
def test_an_editor_that_saves_while_its_file_is_moved_across_loses_nothing(
    two_disks: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = two_disks.file("a", b"first"), two_disks.there / "b"
    work = two_disks.prepare("FILE_MOVE", source_path=source, destination_path=target)

    def save(_fact: object) -> None:
        new = source.with_name("new")
        new.write_bytes(b"second")
        new.rename(source)

    with pytest.raises(RefusedError, match="changed or replaced"):
        MOVE.run(work._replace(note=save))
    assert (source.read_bytes(), target.exists()) == (b"second", False)
    assert [*two_disks.there.iterdir()] == []


def _make(kind: str, path: Path, place: Place) -> None:
    match kind:
        case "folder":
            path.mkdir()
        case "link":
            (place.outside / "secret").write_bytes(b"secret")
            path.symlink_to(place.outside / "secret")
        case "dangling link":
            path.symlink_to(place.outside / "nothing")
        case _:
            path.write_bytes(b"other" if kind == "file" else b"")


def _change(how: str, path: Path, place: Place) -> None:
    match how:
        case "rewritten":
            path.write_bytes(b"SOME BYTES")
        case "replaced":
            (path.parent / "new").write_bytes(b"some bytes")
            (path.parent / "new").rename(path)
        case "chmod":
            path.chmod(0o600)
        case "gone":
            path.unlink()
        case "hard link":
            os.link(path, place.outside / "hard")
        case _:
            path.rename(place.outside / "moved")
            path.symlink_to(place.outside / "moved")
