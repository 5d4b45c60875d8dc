"""A workspace that the version before made, and was killed in, goes on under this one."""

from pathlib import Path

import pytest

from tests.compat.upgrade import (
    Made,
    check_calls,
    check_migration,
    check_stored_names,
    check_upgrade,
    check_waiting,
    make_with,
)
from tests.compat.versions import BEFORE, NoSuchVersionError, source_of


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("upgrade")
    try:
        return make_with(source_of(BEFORE, folder / "version"), folder / "made")
    except NoSuchVersionError as problem:
        pytest.skip(str(problem))


def test_work_that_the_previous_version_left_is_recovered_applied_and_rolled_back(made: Made) -> None:
    story = made.story
    assert {kind: len(entries) for kind, entries in story.items() if isinstance(entries, dict)} == {
        "tasks": 7,
        "plans": 13,
        "calls": 4,
        "goals": 5,
        "tokens": 2,
    }
    assert check_upgrade(made) == []


def test_another_answer_than_before_and_a_stored_name_of_a_module_are_found(made: Made) -> None:
    """The comparison fires. On the same workspace: what is asked for here gives the same however often it is asked."""
    list(check_migration(made))
    (made.root / "notes.json").write_text('{"effect": "remit.effects.files:MOVE"}')
    story = {**made.story, "calls": {**made.story["calls"], "done": "{}"}, "revoked": "another"}
    seeded = Made(made.folder, story)
    found = [*check_stored_names(seeded), *check_calls(seeded), *check_waiting(seeded)]
    assert any("names a module: remit.effects.files:MOVE" in line for line in found)
    assert any("a repeated call gives another result" in line for line in found)
    assert any(line.startswith("tokens: ") for line in found)


def test_a_version_that_is_not_in_the_history_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NoSuchVersionError, match="fetch --unshallow"):
        source_of("0" * 40, tmp_path)
