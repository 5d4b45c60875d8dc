"""What a task notes is little, holds no digits that could be masked, and means the same after a reboot."""

import os
from pathlib import Path

import pytest

from remit.effects.tasks.files import MOVE
from remit.effects.tasks.notes import mark_of
from remit.fs import openat as beneath
from remit.masking.json import mask_json
from tests.effects.tasks.concurrent_changes import CONTENT, transfer
from tests.effects.tasks.task_folder import Place
from tests.support.small_disks import only_root


@pytest.fixture
def a(place: Place) -> Path:
    return place.file("a", CONTENT)


@only_root
def test_the_notes_of_a_task_are_few_and_survive_masking(two_disks: Place) -> None:
    two_disks.file("a", CONTENT)
    MOVE.run(transfer(two_disks))
    assert [sorted(note) for note in two_disks.notes] == [["made", "sha256"], ["aside"]]
    for note in two_disks.notes:
        assert mask_json(dict(note)) == note


@pytest.mark.parametrize("number", [0, 1, 2**32 - 1, 4_111_111_111_111_111, 1_794_753_150_875_497_083, 2**64 - 1])
def test_no_number_in_a_note_is_taken_for_a_secret(place: Place, number: int) -> None:
    folder = os.open(place.here, os.O_RDONLY)
    try:
        seen = beneath.FileIdentity(number, number, 0, 0, 0, 0, 0, 0, 1, number)
        mark = mark_of(seen, folder)
    finally:
        os.close(folder)
    assert mask_json({"made": mark}) == {"made": mark}
    assert not any(character.isdigit() for character in mark)


def test_a_mark_outlives_another_number_of_its_disk(place: Place, a: Path) -> None:
    spot = place.spot(str(a))
    seen = beneath.inspect_file(spot.folder, spot.name)
    assert mark_of(seen, spot.folder).startswith("home-"), "the device is known by its folder"
