"""A task was cut short, and somebody works in its folders before it is settled: nothing of his is lost or taken.

What the task had done is known from its notes. A file that only looks like its own is somebody else's.
"""

from pathlib import Path
from typing import Any

import pytest

from remit.core.errors import EnvironmentFailureError, RefusedError
from remit.effects import file_copy as duplicate
from remit.effects.context import EffectContext
from remit.effects.tasks.files import DELETE
from remit.fs import openat as beneath
from tests.effects.tasks.concurrent_changes import BOTH, CONTENT, killed_at, recreate, save, transfer
from tests.effects.tasks.task_folder import Place, world
from tests.effects.tasks.task_process import notes_of, run_task
from tests.support.child_process import Fault
from tests.support.small_disks import only_root


@pytest.fixture
def a(place: Place) -> Path:
    return place.file("a", CONTENT)


# --- numbers that are given anew ------------------------------------------------------------------------------------


def test_a_file_that_got_the_inode_number_of_another_is_not_that_file(place: Place, a: Path) -> None:
    seen = place.spot(str(a))
    before = beneath.inspect_file(seen.folder, seen.name)
    a.unlink()
    recreate(a, CONTENT, before.ino)
    assert before.birth_ns > 0, "the filesystem under the tests tells it"
    assert not beneath.inspect_file(seen.folder, seen.name).is_file(before)


@BOTH
def test_a_name_that_is_used_again_at_once_after_a_delete_is_not_the_deleted_file(
    place: Place, a: Path, call: str
) -> None:
    inode = a.stat().st_ino
    work = place.prepare("FILE_DELETE", source_path=a)
    notes = killed_at(place, work, "effect.removed")
    recreate(a, b"new", inode)
    if call == "finish":
        assert place.settle(work, finish=True, notes=notes) is not None, "it was removed; the new one is somebody's"
    else:
        with pytest.raises(EnvironmentFailureError, match="already removed"):
            place.settle(work, finish=False, notes=notes)
    assert a.read_bytes() == b"new"


@only_root
def test_a_name_that_is_used_again_at_once_after_a_move_across_is_not_the_moved_file(two_disks: Place) -> None:
    a = two_disks.file("a", CONTENT)
    inode = a.stat().st_ino
    work = transfer(two_disks)
    notes = killed_at(two_disks, work, "effect.removed")
    recreate(a, b"new", inode)
    assert two_disks.settle(work, finish=True, notes=notes) is not None
    assert (a.read_bytes(), (two_disks.there / "b").read_bytes()) == (b"new", CONTENT)


@BOTH
def test_a_moved_file_that_was_deleted_is_not_the_next_one_at_its_destination(place: Place, a: Path, call: str) -> None:
    inode = a.stat().st_ino
    work = transfer(place)
    killed_at(place, work, "effect.moved")
    (place.there / "b").unlink()
    recreate(place.there / "b", b"new", inode)
    with pytest.raises(EnvironmentFailureError, match="neither at its source nor"):
        place.settle(work, finish=call == "finish")
    assert world(place.here) == {}
    assert (place.there / "b").read_bytes() == b"new"


# --- FILE_DELETE ----------------------------------------------------------------------------------------------------


@BOTH
def test_what_is_written_through_an_open_descriptor_to_a_file_set_aside_is_kept(
    place: Place, a: Path, call: str
) -> None:
    with a.open("r+b") as stream:
        work = place.prepare("FILE_DELETE", source_path=a)
        notes = killed_at(place, work, "effect.set_aside")
        stream.write(b"written meanwhile")
        stream.flush()
        assert place.settle(work, finish=call == "finish", notes=notes) is None
    assert a.read_bytes().startswith(b"written meanwhile")


def test_what_is_written_to_a_file_between_the_note_and_its_removal_is_kept(place: Place, a: Path) -> None:
    work = place.prepare("FILE_DELETE", source_path=a)
    noted: list[Any] = []

    def note(what: Any) -> None:
        if not noted:
            (place.here / work.part_name).write_bytes(b"written meanwhile")
        noted.append(what)

    with pytest.raises(RefusedError, match="changed or replaced"):
        DELETE.run(work._replace(note=note))
    assert a.read_bytes() == b"written meanwhile"
    a.rename(place.here / "elsewhere")
    assert place.settle(work, finish=True, notes=tuple(noted)) is None, "it was put back, and that was noted too"


@BOTH
@pytest.mark.parametrize("meanwhile", ["renamed", "removed", "saved"])
def test_a_delete_that_never_began_takes_no_credit_for_what_others_do(
    place: Place, a: Path, call: str, meanwhile: str
) -> None:
    work = place.prepare("FILE_DELETE", source_path=a)
    match meanwhile:
        case "renamed":
            a.rename(place.here / "theirs")
        case "removed":
            a.unlink()
        case _:
            save(a, b"theirs")
    was = world(place.here)
    assert place.settle(work, finish=call == "finish") is None
    assert world(place.here) == was


@BOTH
def test_a_file_set_aside_whose_name_was_taken_is_never_lost_in_silence(place: Place, a: Path, call: str) -> None:
    work = place.prepare("FILE_DELETE", source_path=a)
    notes = killed_at(place, work, "effect.set_aside")
    (place.here / work.part_name).write_bytes(b"edited")
    a.write_bytes(b"new")
    was = world(place.here)
    with pytest.raises(EnvironmentFailureError, match="could not undo the rename") as caught:
        place.settle(work, finish=call == "finish", notes=notes)
    assert caught.value.where.endswith(work.part_name)
    assert world(place.here) == was


@BOTH
def test_what_an_editor_saved_and_a_killed_task_set_aside_gets_its_name_back(place: Place, a: Path, call: str) -> None:
    work = place.prepare("FILE_DELETE", source_path=a)
    save(a, b"saved")
    a.rename(place.here / work.part_name)  # the rename, after which the task would have looked again
    assert place.settle(work, finish=call == "finish") is None
    assert world(place.here).keys() == {str(a)}
    assert a.read_bytes() == b"saved"


# --- FILE_COPY and FILE_RESTORE -------------------------------------------------------------------------------------


@pytest.mark.parametrize("capability_id", ["FILE_COPY", "FILE_RESTORE"])
def test_a_file_that_was_made_and_edited_since_was_made_and_is_not_removed(
    place: Place, a: Path, capability_id: str
) -> None:
    work, made = making(place, a, capability_id)
    done = run_task(place, work, "run", fault=Fault("effect.published"))
    made.write_bytes(b"edited")
    output = place.settle(work, finish=True, notes=notes_of(done))
    assert output is not None
    if capability_id == "FILE_COPY":
        assert output["undo_metadata"]["sha256"] == duplicate_digest(a), "what it was made with"
    with pytest.raises(EnvironmentFailureError, match="changed since"):
        place.settle(work, finish=False, notes=notes_of(done))
    assert made.read_bytes() == b"edited"


@BOTH
@pytest.mark.parametrize("capability_id", ["FILE_COPY", "FILE_RESTORE"])
@pytest.mark.parametrize("point", ["", "effect.part_synced", "effect.published"])
def test_a_file_of_another_process_with_the_same_bytes_at_the_destination_is_left_alone(
    place: Place, a: Path, capability_id: str, point: str, call: str
) -> None:
    work, made = making(place, a, capability_id)
    notes = killed_at(place, work, point) if point else ()
    save(made, CONTENT)
    assert place.settle(work, finish=call == "finish", notes=notes) is None
    assert made.read_bytes() == CONTENT
    assert not list(made.parent.glob(".remit-*"))


def making(place: Place, a: Path, capability_id: str) -> tuple[EffectContext, Path]:
    if capability_id == "FILE_COPY":
        return transfer(place, "FILE_COPY"), place.there / "b"
    recovery = place.run("FILE_DELETE", source_path=a)["undo_metadata"]["recovery"]
    return place.prepare("FILE_RESTORE", recovery=recovery, destination_path=a), a


def duplicate_digest(path: Path) -> str:
    with path.open("rb") as stream:
        return duplicate.sha256_of(stream.fileno())
