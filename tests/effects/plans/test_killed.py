"""A plan killed at each of its system calls, and again while it is settled: as before or as after, never between."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from remit.effects.plans.steps import StepPlan, StepProgress, note_undone
from tests.effects.plans.plan_project import (
    PlanPlace,
    contents,
    create,
    delete,
    edit,
    in_child,
    is_own,
    rename,
    replace,
    tree,
)
from tests.support.sampling import some


@pytest.fixture
def place(tmp_path: Path) -> Iterator[PlanPlace]:
    root = tmp_path / "project"
    root.mkdir()
    with ExitStack() as stack:
        yield PlanPlace(root, stack)


def lay_project(place: PlanPlace) -> None:
    place.file("a.txt", "one two\n", 0o640)
    place.file("b.txt", "bye\n")
    place.file("old/c.txt", "moves\n", 0o755)
    place.file("new/keep", "")


def edits(place: PlanPlace) -> StepPlan:
    """One wave with all four moves, in two folders."""
    return place.plan(
        create("new/n.txt", "fresh\n"), edit("a.txt", "two", "three"), delete("b.txt"), rename("old/c.txt", "new/c.txt")
    )


def chain(place: PlanPlace) -> StepPlan:
    """Several waves, one of which comes back to a state that was there before."""
    return place.plan(
        create("new/n.txt", "1\n"),
        delete("b.txt"),
        edit("new/n.txt", "1", "2"),
        create("b.txt", "bye\n"),
        rename("new/n.txt", "new/m.txt"),
        replace("b.txt", "hello\n"),
        edit("new/m.txt", "2", "3"),
    )


class Notes:
    """The host's ledger: a file, which outlives the process."""

    def __init__(self, place: PlanPlace) -> None:
        self._path = place.root.parent / "notes"
        self._path.write_text("")
        place.notes = self  # type: ignore[assignment]

    def append(self, note: Any) -> None:
        with self._path.open("a") as file:
            file.write(repr(note) + "\n")

    def __iter__(self) -> Iterator[Any]:
        return iter([eval(line) for line in self._path.read_text().splitlines()])  # noqa: S307


def go_back(place: PlanPlace, plan: StepPlan, progress: StepProgress) -> None:
    """As the door does."""
    first = progress.wave if progress.undone is None else progress.undone - 1
    for wave in reversed(range(first + 1)):
        place.undo(plan, wave, not_done=sorted(progress.not_done))
        place.notes.append(note_undone(wave))


def settle(place: PlanPlace, plan: StepPlan) -> bool:
    progress = place.progress()
    if progress.undone is None and place.finish(plan, progress.wave, not_done=sorted(progress.not_done)):
        return True
    go_back(place, plan, progress)
    return False


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("make", some([edits, chain], 1))
@pytest.mark.parametrize("nested", [False, True])
def test_killed_at_any_system_call_the_tree_is_as_before_or_as_after(
    place: PlanPlace,
    make: Callable[[PlanPlace], StepPlan],
    nested: bool,  # noqa: FBT001
) -> None:
    lay_project(place)
    plan = make(place)
    first, counts = contents(place.root), {True: 0, False: 0}
    place.run(plan)
    last = contents(place.root)
    for die_at in range(1, 10_000, 4 if nested else 1):
        for path in (*place.root.rglob("*.txt"), *place.root.rglob(".remit-*")):
            path.unlink()
        lay_project(place)
        before = tree(place.root)
        Notes(place)
        if in_child(lambda: place.run(plan), die_at) is not None:
            break
        for again in range(2, 10_000, 9) if nested else ():
            if in_child(lambda: settle(place, plan), again) is not None:
                break
        forward = settle(place, plan)
        assert settle(place, plan) is forward, "once more says the same"
        counts[forward] += 1
        if forward:
            assert contents(place.root) == last, f"killed at {die_at}"
            place.clear(plan)
            assert place.finish(plan, place.progress().wave)
            assert not any(map(is_own, tree(place.root)))
        else:
            assert tree(place.root) == before, f"killed at {die_at}"
    assert first != last
    assert counts[True] > 0, "some were whole when they died"
    assert counts[False] > (5 if nested else 20), "most were not"
