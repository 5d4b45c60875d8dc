"""A task killed at any of its durable steps: settled, the world is as before or as after, never between.

Finishing is what recovery does for a host that died; undoing is what a living host does after it killed the task
itself. Both have all that the task had noted, which is in the ledger before the task goes on.
"""

import itertools
import json
from typing import Final

import pytest

from remit.core.errors import EnvironmentFailureError
from remit.core.faultpoints import FAULT_POINTS
from remit.effects.context import EffectContext
from tests.effects.tasks.task_folder import Place, world
from tests.effects.tasks.task_process import notes_of, run_task
from tests.support.child_process import Fault
from tests.support.small_disks import only_root

COPYING: Final = (
    "effect.part_made",
    "effect.part_filled",
    "effect.part_synced",
    "effect.published",
    "effect.folder_synced",
)
REMOVING: Final = ("effect.set_aside", "effect.removed", "effect.removal_synced")
GONE: Final = frozenset({"effect.removed", "effect.removal_synced"})
POINTS: Final = {
    "move": ("effect.moved", "effect.move_synced"),
    "move across": (*COPYING, *REMOVING),
    "copy": COPYING,
    "delete": REMOVING,
    "restore": (*COPYING[:2], "effect.attributes_set", *COPYING[2:]),
}
CASES: Final = [(task, point) for task, points in POINTS.items() for point in points]


@pytest.fixture
def anywhere(request: pytest.FixtureRequest, task: str) -> Place:
    place: Place = request.getfixturevalue("two_disks" if task == "move across" else "place")
    return place


def cases(pairs: list[tuple[str, str]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "task, point", [pytest.param(*pair, marks=only_root if "across" in pair[0] else ()) for pair in pairs]
    )


def prepare(place: Place, task: str) -> EffectContext:
    source, target = place.file("a", b"important" * 1000, 0o640), place.there / "b"
    if task == "delete":
        return place.prepare("FILE_DELETE", source_path=source)
    if task == "restore":
        recovery = place.run("FILE_DELETE", source_path=source)["undo_metadata"]["recovery"]
        return place.prepare("FILE_RESTORE", recovery=recovery, destination_path=source)
    return place.prepare("FILE_COPY" if task == "copy" else "FILE_MOVE", source_path=source, destination_path=target)


def after(place: Place, task: str) -> set[str]:
    """The files that are there when the task is done. There is only one content."""
    a, b = str(place.here / "a"), str(place.there / "b")
    return {"move": {b}, "move across": {b}, "copy": {a, b}, "delete": set(), "restore": {a}}[task]


def test_every_step_of_the_effects_is_in_this_table() -> None:
    listed = set(itertools.chain.from_iterable(POINTS.values()))
    assert listed == {point for point in FAULT_POINTS if point.startswith("effect.")}


@cases(CASES)
@pytest.mark.req("FX-06", "EI-12")
def test_a_task_whose_host_died_is_finished_or_never_was(anywhere: Place, task: str, point: str) -> None:
    work = prepare(anywhere, task)
    was = world(anywhere.here, anywhere.there)
    ended = run_task(anywhere, work, "run", fault=Fault(point))
    assert ended.killed, ended.output
    outcomes = [anywhere.settle(work, finish=True, notes=notes_of(ended)) for _ in range(2)]
    assert outcomes[0] == outcomes[1], "settling again changes nothing"
    now = world(anywhere.here, anywhere.there)
    if outcomes[0] is None:
        assert now == was
    else:
        assert now.keys() == after(anywhere, task)
        assert {content for _, content in now.values()} <= {b"important" * 1000}
        assert {mode & 0o7777 for mode, _ in now.values()} <= {0o640}
    reached_the_world = point not in COPYING[:3] and point != "effect.attributes_set"
    assert (outcomes[0] is not None) == reached_the_world


@cases(CASES)
@pytest.mark.req("EI-10", "FX-12")
def test_a_task_that_was_killed_is_undone_as_long_as_it_can_be(anywhere: Place, task: str, point: str) -> None:
    work = prepare(anywhere, task)
    was = world(anywhere.here, anywhere.there)
    notes = notes_of(run_task(anywhere, work, "run", fault=Fault(point)))
    if point in GONE:
        with pytest.raises(EnvironmentFailureError, match="when the task was stopped"):
            anywhere.settle(work, finish=False, notes=notes)
        assert anywhere.settle(work, finish=True, notes=notes) is not None
        assert world(anywhere.here, anywhere.there).keys() == after(anywhere, task)
        return
    for _ in range(2):
        assert anywhere.settle(work, finish=False, notes=notes) is None
        assert world(anywhere.here, anywhere.there) == was


@cases([("move across", "effect.published"), ("move across", "effect.set_aside"), ("delete", "effect.set_aside")])
@pytest.mark.parametrize("second", REMOVING)
def test_a_recovery_that_is_killed_itself_is_taken_up_again(
    anywhere: Place, task: str, point: str, second: str
) -> None:
    work = prepare(anywhere, task)
    first = run_task(anywhere, work, "run", fault=Fault(point))
    assert first.killed
    again = run_task(anywhere, work, "finish", fault=Fault(second), notes=notes_of(first))
    assert again.killed
    assert anywhere.settle(work, finish=True, notes=(*notes_of(first), *notes_of(again))) is not None
    assert world(anywhere.here, anywhere.there).keys() == after(anywhere, task)


@cases(CASES)
def test_a_step_that_fails_leaves_the_world_as_it_was_and_says_why(anywhere: Place, task: str, point: str) -> None:
    work = prepare(anywhere, task)
    was = world(anywhere.here, anywhere.there)
    ended = run_task(anywhere, work, "run", fault=Fault(point, 1, "error"))
    assert ended.exit_code == 3, ended.output
    assert "the disk, or a quota on it, is full" in ended.acknowledged[-1]
    now = world(anywhere.here, anywhere.there)
    if point in GONE:
        assert now.keys() == after(anywhere, task), "too late to go back: it is for recovery to say that it was done"
        assert anywhere.settle(work, finish=True, notes=notes_of(ended)) is not None
    else:
        assert now == was


@pytest.mark.parametrize("task", ["move", "copy", "delete", "restore"])
@pytest.mark.parametrize("finish", [True, False])
def test_a_task_that_never_began_is_settled_as_nothing(anywhere: Place, task: str, finish: bool) -> None:  # noqa: FBT001
    work = prepare(anywhere, task)
    was = world(anywhere.here, anywhere.there)
    assert anywhere.settle(work, finish=finish) is None
    assert world(anywhere.here, anywhere.there) == was


@pytest.mark.parametrize("task", ["move", "copy", "delete", "restore"])
def test_a_task_that_was_done_is_finished_with_the_same_output(anywhere: Place, task: str) -> None:
    work = prepare(anywhere, task)
    ended = run_task(anywhere, work, "run")
    output = anywhere.settle(work, finish=True, notes=notes_of(ended))
    assert ended.acknowledged[-1] == f"done: {json.dumps(output)}"
