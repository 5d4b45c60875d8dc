"""Going back, row by row: every pair of states a crash and other people can leave, made by hand.

B is the content before the step, A after it, X somebody else's; - is nothing. The names are those of `going_back`.
"""

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from remit.core.errors import EnvironmentFailureError, Reason, RemitError
from remit.effects.plans import undo as going_back
from remit.effects.plans.steps import StepPlan, aside_name, part_name
from remit.fs import openat as beneath
from tests.effects.plans.plan_project import (
    PREFIX,
    PlanPlace,
    contents,
    create,
    delete,
    edit,
    is_own,
    rename,
    replace,
    tree,
)

CONTENT = {"B": b"before", "A": b"after!", "X": b"others"}
T, S = part_name(PREFIX, 0), aside_name(PREFIX, 0)
DRIFTED = "drifted"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[PlanPlace]:
    root = tmp_path / "project"
    root.mkdir()
    with ExitStack() as stack:
        yield PlanPlace(root, stack)


def lay(root: Path, states: dict[str, str]) -> None:
    """Exactly these files, by name: B, A, X or -."""
    for path in root.iterdir():
        path.unlink()
    for name, letter in states.items():
        if letter != "-":
            (root / name).write_bytes(CONTENT[letter])
            (root / name).chmod(0o644)


def found(root: Path) -> dict[str, str]:
    letters = {content: letter for letter, content in CONTENT.items()}
    return {path.name: letters[path.read_bytes()] for path in root.iterdir()}


def check(place: PlanPlace, plan: StepPlan, states: dict[str, str], expected: dict[str, str] | str) -> list[int] | None:
    """Undo from these states; a second time must change nothing. What was left, or None where it is refused."""
    lay(place.root, states)
    before = tree(place.root)
    if expected == DRIFTED:
        with pytest.raises(EnvironmentFailureError) as refusal:
            place.undo(plan)
        assert refusal.value.reason is Reason.DRIFTED
        assert "remit recover" in refusal.value.next_step
        assert tree(place.root) == before, "nothing is touched"
        return None
    left = place.undo(plan)
    assert found(place.root) == expected
    place.undo(plan)
    assert found(place.root) == expected, "once more changes nothing"
    return left


# What is at P and T: what is there afterwards, and whether somebody else's was left.
MODIFY: dict[tuple[str, str], tuple[Any, bool]] = {
    ("B", "-"): ({"P": "B"}, False),
    ("A", "-"): ({"P": "A"}, False),
    ("X", "-"): ({"P": "X"}, False),
    ("-", "-"): ({}, False),
    ("B", "A"): ({"P": "B"}, False),
    ("A", "B"): ({"P": "B"}, False),
    ("A", "X"): ({"P": "X"}, False),
    ("A", "A"): ({"P": "A"}, True),
    ("X", "A"): ({"P": "X"}, True),
    ("-", "B"): ({"P": "B"}, False),
    ("-", "A"): ({}, True),
    ("X", "B"): (DRIFTED, False),
    ("X", "X"): (DRIFTED, False),
    ("B", "B"): ({"P": "B"}, False),
    ("B", "X"): (DRIFTED, False),
    ("-", "X"): (DRIFTED, False),
}


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("row", list(itertools.product("BAX-", "BAX-")), ids="".join)
def test_modify(place: PlanPlace, row: tuple[str, str]) -> None:
    lay(place.root, {"P": "B"})
    plan = place.plan(replace("P", "after!"))
    expected, somebody = MODIFY[row]
    left = check(place, plan, {"P": row[0], T: row[1]}, expected)
    assert left is None or left == ([0] if somebody else [])


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("here", "BAX-")
@pytest.mark.parametrize("unfinished", "BAX")
def test_modify_that_was_only_staged(place: PlanPlace, here: str, unfinished: str) -> None:
    """New bytes grow under a name of their own: whatever they are, they are never taken for a file of somebody's."""
    lay(place.root, {"P": "B"})
    plan = place.plan(replace("P", "after!"))
    check(place, plan, {"P": here, S: unfinished}, {} if here == "-" else {"P": here})


CREATE: dict[tuple[str, str], tuple[Any, bool]] = {
    ("A", "-"): ({}, False),
    ("X", "-"): ({"P": "X"}, True),
    ("-", "-"): ({}, False),
    ("A", "A"): ({"P": "A"}, True),
    ("X", "A"): ({"P": "X"}, True),
    ("-", "A"): ({}, False),
    ("-", "X"): ({"P": "X"}, True),
    ("A", "X"): (DRIFTED, False),
    ("X", "X"): (DRIFTED, False),
}


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("row", list(itertools.product("AX-", "AX-")), ids="".join)
def test_create(place: PlanPlace, row: tuple[str, str]) -> None:
    plan = place.plan(create("P", "after!"))
    expected, somebody = CREATE[row]
    lay(place.root, {"P": row[0], S: row[1]})
    if row == ("A", "A"):  # undone, then made alike by somebody: the second time it counts as the plan's
        assert place.undo(plan) == [0]
        assert found(place.root) == expected
        return
    left = check(place, plan, {"P": row[0], S: row[1]}, expected)
    assert left is None or left == ([0] if somebody else [])


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("row", list(itertools.product("AX-", "AX")), ids="".join)
def test_create_that_was_only_staged(place: PlanPlace, row: tuple[str, str]) -> None:
    """While the part is there, P is certainly not the plan's, even if it looks like it."""
    plan = place.plan(create("P", "after!"))
    lay(place.root, {"P": row[0], T: row[1]})
    assert place.undo(plan) == ([] if row[0] == "-" else [0])
    assert found(place.root) == ({} if row[0] == "-" else {"P": row[0]})


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("row", list(itertools.product("BX-", "BX-")), ids="".join)
def test_delete(place: PlanPlace, row: tuple[str, str]) -> None:
    lay(place.root, {"P": "B"})
    plan = place.plan(delete("P"))
    here, aside = row
    if aside == "-":
        expected: Any = {} if here == "-" else {"P": here}
    else:
        expected = {"P": aside} if here == "-" else {"P": "B"} if row == ("B", "B") else DRIFTED
    assert check(place, plan, {"P": here, S: aside}, expected) in ([], None)


RENAME: dict[tuple[str, str], tuple[Any, bool]] = {
    ("-", "B"): ({"P": "B"}, False),
    ("B", "-"): ({"P": "B"}, False),
    ("B", "B"): ({"P": "B", "Q": "B"}, True),
    ("B", "X"): ({"P": "B", "Q": "X"}, True),
    ("X", "B"): (DRIFTED, False),
    ("X", "X"): ({"P": "X", "Q": "X"}, True),
    ("X", "-"): ({"P": "X"}, True),
    ("-", "X"): ({"Q": "X"}, True),
    ("-", "-"): ({}, True),
}


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("row", list(itertools.product("BX-", "BX-")), ids="".join)
def test_rename(place: PlanPlace, row: tuple[str, str]) -> None:
    lay(place.root, {"P": "B"})
    plan = place.plan(rename("P", "Q"))
    expected, somebody = RENAME[row]
    left = check(place, plan, {"P": row[0], "Q": row[1]}, expected)
    assert left is None or left == ([0] if somebody else [])


# --- what counts as somebody else's ----------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["folder", "link", "hard link", "permissions"])
def test_only_a_plain_file_with_the_same_bytes_and_permissions_counts_as_the_plans(place: PlanPlace, what: str) -> None:
    plan = place.plan(create("P", "after!"))
    path, other = place.root / "P", place.root / "other"
    other.write_bytes(CONTENT["A"])
    match what:
        case "folder":
            path.mkdir()
        case "link":
            path.symlink_to(other)
        case "hard link":
            path.hardlink_to(other)
        case "permissions":
            path.write_bytes(CONTENT["A"])
            path.chmod(0o600)
    assert place.undo(plan) == [0]
    assert path.exists()
    assert other.read_bytes() == CONTENT["A"]


def test_a_folder_under_a_name_of_ours_is_not_removed(place: PlanPlace) -> None:
    plan = place.plan(create("P", "after!"))
    (place.root / T).mkdir()
    place.undo(plan)
    assert (place.root / T).is_dir()


def test_a_step_known_not_to_be_done_is_not_mistaken_for_what_looks_like_it(place: PlanPlace) -> None:
    """Somebody made the very same file, which is why the step failed."""
    lay(place.root, {"B": "B"})
    plan = place.plan(create("P", "after!"), rename("B", "Q"))
    lay(place.root, {"P": "A", "Q": "B", T: "X"})
    assert place.undo(plan, not_done=[0, 1]) == []
    assert found(place.root) == {"P": "A", "Q": "B"}


def test_one_step_that_cannot_be_undone_does_not_prevent_the_undo_of_the_others(place: PlanPlace) -> None:
    for name in "abc":
        place.file(name, "x")
    plan = place.plan(*(replace(name, "y") for name in "abc"))
    place.run(plan)
    place.file("b", "somebody's")
    with pytest.raises(EnvironmentFailureError) as refusal:
        place.undo(plan)
    assert refusal.value.where.endswith("b")
    assert part_name(PREFIX, 1) in refusal.value.next_step, "both files are named"
    assert contents(place.root) == {"a": (0o644, b"x"), "b": (0o644, b"somebody's"), "c": (0o644, b"x")}
    assert [name for name in tree(place.root) if is_own(name)] == [part_name(PREFIX, 1)]


# --- exchanged while it is taken back --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "action, switched",
    [
        (replace("P", "after!"), {"P": "A", T: "B"}),
        (create("P", "after!"), {"P": "A"}),
        (rename("P", "Q"), {"Q": "B"}),
        (delete("P"), {S: "B"}),
    ],
)
def test_a_file_that_is_exchanged_between_check_and_rename_is_put_in_its_place_again(
    place: PlanPlace, monkeypatch: pytest.MonkeyPatch, action: Any, switched: dict[str, str]
) -> None:
    lay(place.root, {} if action["action_type"] == "FILE_CREATE" else {"P": "B"})
    plan = place.plan(action)
    lay(place.root, switched)
    name = next(name for name in switched if name != T)

    def meddled(real: Callable[..., None]) -> Callable[..., None]:
        first = iter([True])

        def call(*arguments: Any, **named: Any) -> None:
            if next(first, False):
                (place.root / name).unlink()
                (place.root / name).write_bytes(CONTENT["X"])
            real(*arguments, **named)

        return call

    for call in ("rename_noreplace", "rename_exchange"):
        monkeypatch.setattr(going_back, call, meddled(getattr(beneath, call)))
    with pytest.raises(RemitError):
        place.undo(plan)
    assert found(place.root) == {**switched, name: "X"}, "nothing of anybody's is lost"


# --- whole or not ----------------------------------------------------------------------------------------------------


@pytest.mark.req("PX-28")
def test_a_plan_with_a_problem_known_before_never_goes_forward_by_itself(place: PlanPlace) -> None:
    place.file("a", "x")
    plan = place.plan(replace("a", "y"), edit("a", "no such text", "z"), create("b", "b"), stop_on_error=False)
    place.run(plan)
    assert not place.finish(plan, len(plan.waves) - 1)


@pytest.mark.req("PX-28")
def test_a_plan_is_whole_only_when_its_last_wave_was_begun(place: PlanPlace) -> None:
    """Deleted and made again with the same bytes, the tree alone would not tell."""
    place.file("a", "x")
    plan = place.plan(delete("a"), create("a", "x"))
    assert not place.finish(plan, 0)
    place.run(plan)
    assert place.finish(plan, 1)


def test_an_undo_accepts_that_another_process_removed_a_folder(place: PlanPlace) -> None:
    place.file("a", "x")
    plan = place.plan(create("new/n", "n"), replace("a", "y"))
    place.run(plan)
    (place.root / "new/n").unlink()
    os.rmdir(place.root / "new")
    assert place.undo(plan) == []
    assert contents(place.root) == {"a": (0o644, b"x")}
