"""A workspace that the version before made, and was killed in, goes on under this one."""

from pathlib import Path

import pytest

from tests.compat.upgrade import Made, check_upgrade, make_with
from tests.compat.versions import BEFORE, NoSuchVersionError, source_of


@pytest.fixture
def made(tmp_path: Path) -> Made:
    try:
        return make_with(source_of(BEFORE, tmp_path / "version"), tmp_path / "made")
    except NoSuchVersionError as problem:
        pytest.skip(str(problem))


def test_what_the_version_before_left_is_recovered_applied_and_taken_back(made: Made) -> None:
    story = made.story
    assert {kind: len(entries) for kind, entries in story.items() if isinstance(entries, dict)} == {
        "tasks": 7,
        "plans": 13,
        "calls": 4,
        "goals": 5,
        "tokens": 2,
    }
    assert check_upgrade(made) == []


def test_a_file_that_an_effect_left_otherwise_is_found(made: Made) -> None:
    """The comparison fires: what a killed plan had done is undone behind its back, and a stored name is a module's."""
    (made.root / "killed-apply-road.effect_done" / "made.txt").unlink()
    (made.root / "notes.json").write_text('{"effect": "remit.effects.files:MOVE"}')
    found = check_upgrade(made)
    assert any("plan killed-apply-road.effect_done" in line for line in found)
    assert any("names a module: remit.effects.files:MOVE" in line for line in found)


def test_a_version_that_is_not_in_the_history_is_told(tmp_path: Path) -> None:
    with pytest.raises(NoSuchVersionError, match="fetch --unshallow"):
        source_of("0" * 40, tmp_path)
