"""A move was cut short, and somebody works at either end before it is settled: nothing of his is lost or taken."""

from pathlib import Path
from typing import Any

import pytest

from remit.core.errors import EnvironmentFailureError
from remit.effects import file_copy as duplicate
from remit.effects.tasks.files import DELETE, MOVE
from remit.fs import openat as beneath
from tests.effects.tasks.concurrent_changes import BOTH, CONTENT, killed_at, save, transfer
from tests.effects.tasks.task_folder import Place, world
from tests.support.small_disks import only_root


@pytest.fixture
def a(place: Place) -> Path:
    return place.file("a", CONTENT)


@BOTH
@pytest.mark.parametrize("meanwhile", ["same bytes at the destination", "saved by an editor"])
def test_a_move_that_never_ran_touches_nothing(place: Place, a: Path, meanwhile: str, call: str) -> None:
    work = transfer(place)
    if meanwhile == "saved by an editor":
        save(a, b"saved")
    else:
        (place.there / "b").write_bytes(CONTENT)
    was = world(place.here, place.there)
    assert place.settle(work, finish=call == "finish") is None
    assert world(place.here, place.there) == was


def test_a_file_that_is_nowhere_is_reported_and_not_guessed(place: Place, a: Path) -> None:
    work = transfer(place)
    a.unlink()
    with pytest.raises(EnvironmentFailureError, match="neither at its source nor") as caught:
        place.settle(work, finish=True)
    assert "remit recover" in caught.value.next_step


def test_a_move_is_not_undone_over_a_new_file(place: Place, a: Path) -> None:
    work = transfer(place)
    killed_at(place, work, "effect.moved")
    a.write_bytes(b"new")
    with pytest.raises(EnvironmentFailureError, match="could not undo the rename"):
        place.settle(work, finish=False)
    assert (a.read_bytes(), (place.there / "b").read_bytes()) == (b"new", CONTENT)


@only_root
@BOTH
@pytest.mark.parametrize("how", ["written to", "saved by an editor", "set aside and written to"])
def test_a_source_edited_before_its_move_across_was_finished_stays_and_the_copy_goes(
    two_disks: Place, how: str, call: str
) -> None:
    a = two_disks.file("a", CONTENT)
    work = transfer(two_disks)
    aside = how == "set aside and written to"
    notes = killed_at(two_disks, work, "effect.set_aside" if aside else "effect.published")
    if how == "saved by an editor":
        save(a, b"edited")
    else:
        (two_disks.here / work.part_name if aside else a).write_bytes(b"edited")
    assert two_disks.settle(work, finish=call == "finish", notes=notes) is None
    assert world(two_disks.here, two_disks.there).keys() == {str(a)}
    assert a.read_bytes() == b"edited"


@only_root
@BOTH
def test_both_ends_of_a_move_across_edited_are_both_left_and_reported(two_disks: Place, call: str) -> None:
    a = two_disks.file("a", CONTENT)
    work = transfer(two_disks)
    notes = killed_at(two_disks, work, "effect.published")
    a.write_bytes(b"edited here")
    (two_disks.there / "b").write_bytes(b"edited there")
    with pytest.raises(EnvironmentFailureError, match="changed since"):
        two_disks.settle(work, finish=call == "finish", notes=notes)
    assert (a.read_bytes(), (two_disks.there / "b").read_bytes()) == (b"edited here", b"edited there")


@only_root
@BOTH
def test_a_file_moved_across_and_edited_there_is_moved_and_never_removed(two_disks: Place, call: str) -> None:
    a = two_disks.file("a", CONTENT)
    work = transfer(two_disks)
    notes = killed_at(two_disks, work, "effect.folder_synced")
    (two_disks.there / "b").write_bytes(b"edited")
    if call == "finish":
        assert two_disks.settle(work, finish=True, notes=notes) is not None
        assert not a.exists()
    else:
        with pytest.raises(EnvironmentFailureError, match="changed since"):
            two_disks.settle(work, finish=False, notes=notes)
        assert a.read_bytes() == CONTENT
    assert (two_disks.there / "b").read_bytes() == b"edited"


@only_root
@BOTH
def test_a_strangers_file_with_the_same_bytes_does_not_cost_the_source_of_a_move_across(
    two_disks: Place, call: str
) -> None:
    a = two_disks.file("a", CONTENT)
    work = transfer(two_disks)
    notes = killed_at(two_disks, work, "effect.part_synced")
    (two_disks.there / "b").write_bytes(CONTENT)
    assert two_disks.settle(work, finish=call == "finish", notes=notes) is None
    assert world(two_disks.here, two_disks.there).keys() == {str(a), str(two_disks.there / "b")}


@only_root
def test_a_file_moved_across_disks_and_then_moved_on_by_another_process_counts_as_moved(two_disks: Place) -> None:
    a = two_disks.file("a", CONTENT)
    work = transfer(two_disks)
    notes = killed_at(two_disks, work, "effect.removed")
    (two_disks.there / "b").rename(two_disks.there / "c")
    a.write_bytes(b"new")
    assert two_disks.settle(work, finish=True, notes=notes) is not None
    assert (a.read_bytes(), (two_disks.there / "c").read_bytes()) == (b"new", CONTENT)


@pytest.mark.parametrize("capability_id", ["FILE_MOVE", "FILE_DELETE"])
def test_two_saves_in_the_instant_of_a_rename_are_a_failure_that_says_where_the_first_is(
    place: Place, a: Path, monkeypatch: pytest.MonkeyPatch, capability_id: str
) -> None:
    work = transfer(place) if capability_id == "FILE_MOVE" else place.prepare("FILE_DELETE", source_path=a)
    real = beneath.rename_noreplace
    calls: list[str] = []

    def rename(*args: Any, **named: Any) -> None:
        calls.append(args[1])
        if len(calls) == 1:
            save(a, b"first save")
        else:
            save(a, b"second save")
        real(*args, **named)

    monkeypatch.setattr(duplicate, "rename_noreplace", rename)
    with pytest.raises(EnvironmentFailureError, match="could not undo the rename") as caught:
        (MOVE if capability_id == "FILE_MOVE" else DELETE).run(work)
    assert len(calls) == 2
    assert Path(caught.value.where).read_bytes() == b"first save"
    assert a.read_bytes() == b"second save"


@only_root
@BOTH
def test_a_source_that_another_process_removed_does_not_cost_the_file_at_its_destination(
    two_disks: Place, call: str
) -> None:
    a = two_disks.file("a", CONTENT)
    work = transfer(two_disks)
    notes = killed_at(two_disks, work, "effect.published")
    a.unlink()
    if call == "finish":
        assert two_disks.settle(work, finish=True, notes=notes) is not None
    else:
        with pytest.raises(EnvironmentFailureError, match="recovery cannot move it back"):
            two_disks.settle(work, finish=False, notes=notes)
    assert (two_disks.there / "b").read_bytes() == CONTENT


@only_root
@BOTH
def test_what_an_editor_saved_and_a_killed_move_across_set_aside_gets_its_name_back(
    two_disks: Place, call: str
) -> None:
    a = two_disks.file("a", CONTENT)
    work = transfer(two_disks)
    notes = killed_at(two_disks, work, "effect.folder_synced")
    save(a, b"saved")
    a.rename(two_disks.here / work.part_name)  # the rename, after which the task would have looked again
    assert two_disks.settle(work, finish=call == "finish", notes=notes) is None
    assert world(two_disks.here, two_disks.there).keys() == {str(a)}
    assert a.read_bytes() == b"saved"
