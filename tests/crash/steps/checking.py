"""After everything: the world and the ledger tell the same of every goal, and the same as its script."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import duckdb

from remit.goals.composite.layout import WHOLE, is_undo, rolled_back_id
from remit.goals.composite.progress import ENDINGS
from remit.ledger.goal_queries import Recorded, step_events
from remit.workspace.workspace import Workspace
from tests.crash.goals.checking import ledger_problems, replay_all
from tests.crash.steps.office import CHANGED, COPIED, StepsOffice
from tests.crash.steps.scripts import Script
from tests.goals.goal_office import TENANT, USER

Effect = tuple[str, str]
_REMAIN: Final = re.compile(r"The effects of these steps remain: ([^.]*)\.")
_ANSWERS: Final = """SELECT step_id, count(*) FROM agent_execution_confirmation_ledger
  WHERE tenant_id = ? AND correlation_id = ? GROUP BY 1"""
_INTERRUPTED: Final = """SELECT count(*) FROM ledger_entries WHERE tenant_id = ? AND correlation_id = ?
  AND kind = 'simulation.outcome' AND payload LIKE ?"""
_BEFORE_ITS_EFFECT: Final = "%it was interrupted before it took effect%"
_DONE: Final = frozenset({"SUCCEEDED", "ROLLED_BACK", "FAILED", "REFUSED", "UNDO_ALLOWED"})
_WAITING: Final = frozenset({"CONFIRMATION_REQUESTED"})


@dataclass
class StepsChecked:
    problems: list[str]
    recovered: int = 0
    duplicates: int = 0
    lost: int = 0
    entries: int = 0
    decisions: int = 0
    retried: int = 0
    rolled_back: int = 0
    cut_short: int = 0
    """Goals with a dispatch that was killed before its action began. That is a failure without an effect."""
    endings: Counter[str] = field(default_factory=Counter)


def check_steps(
    office: StepsOffice, scripts: Mapping[str, Script], left: Collection[str] = (), *, strangers: bool = False
) -> StepsChecked:
    """Recover, and compare everything.

    `left`: goals that nobody went on with, so they may have stopped anywhere. `strangers`: there are other goals, too.
    """
    with office.scratch.open() as workspace:
        reports = workspace.recover()
        checked = StepsChecked([f"could not be settled: {each.problem}" for each in reports if each.problem])
        checked.recovered = len(reports)
        again = [each.key for each in workspace.recover()]
        checked.problems += [f"{key}: there was more to recover after recovery" for key in again]
        world = read_world(office)
        checked.problems += [] if strangers else _strange(world, scripts)
        for script in scripts.values():
            _check_goal(workspace, office, script, world, checked, is_left=script.correlation_id in left)
        checked.problems += ledger_problems(workspace)
        begun = [each for each in scripts if _events(workspace, each)]
        checked.decisions, others = replay_all(workspace, begun, TENANT)
        checked.problems += others
        with workspace.store.reading() as connection:
            row = connection.one("SELECT count(*) FROM ledger_entries")
        checked.entries = row[0] if row else 0
    return checked


def read_world(office: StepsOffice) -> Counter[Effect]:
    """How often each effect is there."""
    world: Counter[Effect] = Counter()
    for path in office.scratch.base.iterdir():
        if path.name != "form.txt" and path.read_text(encoding="utf-8") in {COPIED, CHANGED}:
            world["file", path.stem] += 1
        elif path.suffix != ".txt":
            world["left over", path.name] += 1
    for path in (office.scratch.root / "logs").iterdir():
        lines = path.read_text(encoding="utf-8").count("done\n")
        if lines:
            world["line", path.stem] += lines
    for lane in office.lanes:
        with duckdb.connect(str(office.database(lane)), read_only=True) as connection:
            world.update(("row", name) for (name,) in connection.execute("SELECT name FROM rows").fetchall())
    return world


def _strange(world: Counter[Effect], scripts: Mapping[str, Script]) -> list[str]:
    wanted = {effect for script in scripts.values() for effect in script.effects.values()}
    return [f"{name}: a {kind} that no goal requested" for kind, name in sorted(set(world) - wanted)]


def _check_goal(
    workspace: Workspace,
    office: StepsOffice,
    script: Script,
    world: Counter[Effect],
    checked: StepsChecked,
    *,
    is_left: bool,
) -> None:
    events = _events(workspace, script.correlation_id)
    if not events:
        checked.lost += not is_left  # of one that is left alone, nobody may have heard
        checked.problems += [] if is_left else [f"{script.correlation_id}: nothing is recorded of it"]
        return
    with workspace.store.reading() as connection:
        answers: dict[str, int] = dict(connection.rows(_ANSWERS, (TENANT, script.correlation_id)))
        interrupted = connection.one(_INTERRUPTED, (TENANT, script.correlation_id, _BEFORE_ITS_EFFECT))
    story = Story(office, script, events, answers)
    is_cut_short = interrupted is not None and interrupted[0] > 0
    checked.cut_short += is_cut_short
    checked.endings[story.whole] += 1
    checked.retried += sum(each.row.event == "RETRIED" for each in events)
    checked.rolled_back += sum(each.row.event == "ROLLED_BACK" and each.row.step_id != WHOLE for each in events)
    lost = [*story.unfinished(is_left=is_left)]
    twice = [*story.repeated(world)]
    found = [*lost, *twice, *story.out_of_order(), *story.unlike_the_world(world)]
    if not is_left:
        found += story.unlike_the_script(is_cut_short=is_cut_short)
    if story.whole == "ABORTED_PARTIAL":
        text = workspace.goals.read_reply(script.correlation_id, user=USER, tenant=TENANT).outcome.user_visible_text
        found += story.named_wrongly(text, world)
    checked.lost += bool(lost)
    checked.duplicates += len(twice)
    checked.problems += [f"{script.correlation_id} ({script.kind.name}): {each}" for each in found]


class Story:
    """What the ledger says of one goal."""

    def __init__(self, office: StepsOffice, script: Script, events: list[Recorded], answers: Mapping[str, int]) -> None:
        self._script = script
        self._answers = answers
        self._events = events
        self._order = office.order[script.composite]
        self._names = {step_id: office.names[step_id][1] for step_id in self._order}
        self._last = {each.row.step_id: each for each in events}
        self.whole = self._last[WHOLE].row.event if WHOLE in self._last else "nothing"

    def unfinished(self, *, is_left: bool) -> Iterator[str]:
        """A goal has ended, or a person is asked, as its script says."""
        for step_id, each in self._last.items():
            if step_id != WHOLE and each.row.event not in _DONE | _WAITING:
                yield f"its step {self._name(step_id)} is {each.row.event} for ever"
        waits = [step_id for step_id, each in self._last.items() if each.row.event in _WAITING]
        if self.whole in ENDINGS:
            # An undo may wait, of a goal that was left alone.
            if any(not is_undo(step_id) or not is_left for step_id in waits):
                yield f"it is {self.whole}, and still asks"
        elif self.whole != "STARTED" or len(waits) != 1:
            yield f"it is {self.whole}, and asks {len(waits)} questions"
        elif not is_left and self._names.get(waits[0]) != self._script.kind.waits_at:
            yield f"it still asks about {self._name(waits[0])}"

    def repeated(self, world: Counter[Effect]) -> Iterator[str]:
        begun = ("DISPATCHED", "RETRIED", "SUCCEEDED", "ROLLED_BACK", "STARTED", *ENDINGS)
        of_whole = Counter(each.row.event for each in self._events if each.row.step_id == WHOLE)
        counts = Counter(
            (each.row.step_id, each.row.event, each.row.attempt)
            for each in self._events
            if each.row.event in begun and each.row.step_id != WHOLE
        )
        yield from (f"{count} rows {event} of the whole" for event, count in of_whole.items() if count > 1)
        for (step_id, event, attempt), count in counts.items():
            if count > 1:
                yield f"{count} rows {event} of {self._name(step_id)}, attempt {attempt or 1}"
        for name, effect in self._script.effects.items():
            if world[effect] > 1:
                yield f"{world[effect]} effects of {name}"
        for step_id, count in self._answers.items():
            if count > 1:
                yield f"{count} answers count for {self._name(step_id)}"

    def out_of_order(self) -> Iterator[str]:
        done = [each.row.step_id for each in self._events if each.row.event == "DISPATCHED"]
        forward = [step_id for step_id in done if step_id in self._names]
        if forward != [step_id for step_id in self._order if step_id in forward]:
            yield f"its steps ran in this order: {', '.join(self._name(each) for each in forward)}"
        back = [step_id for each in done if (step_id := rolled_back_id(each)) is not None]
        if back != [step_id for step_id in reversed(self._order) if step_id in back]:
            yield f"its steps were rolled back in this order: {', '.join(self._name(each) for each in back)}"

    def unlike_the_world(self, world: Counter[Effect]) -> Iterator[str]:
        for step_id in self._order:
            name = self._names[step_id]
            effect, last = self._script.effects.get(name), self._last.get(step_id)
            if effect is None or (last is not None and last.row.event == "FAILED" and last.row.effect != "NONE"):
                continue
            is_there = last is not None and last.row.event == "SUCCEEDED"
            if bool(world[effect]) != is_there:
                stands = last.row.event if last is not None else "not begun"
                yield f"its step {name} is {stands}, and has {world[effect]} effects"
        remaining = self._remaining(world)
        if self.whole == "COMPLETED" and len(remaining) != len(self._script.effects):
            yield f"it is COMPLETED, with the effects of {remaining}"
        if self.whole in {"ABORTED_ROLLED_BACK", "ROLLED_BACK", "REFUSED"} and remaining:
            yield f"it is {self.whole}, with the effects of {remaining}"

    def unlike_the_script(self, *, is_cut_short: bool) -> Iterator[str]:
        """A goal that was cut short may also have been rolled back, or have stopped in its rollback."""
        kind = self._script.kind
        stays = sorted(self._names[each] for each in self._order if self._stays(each))
        if is_cut_short and self.whole in {"ABORTED_ROLLED_BACK", "ABORTED_PARTIAL"}:
            return
        if self.whole != kind.ending:
            yield f"it is {self.whole}"
        if stays != sorted(kind.remains):
            yield f"the effects of {stays} remain"

    def named_wrongly(self, text: str, world: Counter[Effect]) -> Iterator[str]:
        found = _REMAIN.search(text)
        named = sorted(found[1].split(", ")) if found else []
        if named != self._remaining(world):
            yield f"it names {named}, and the effects of {self._remaining(world)} are there"

    def _remaining(self, world: Counter[Effect]) -> list[str]:
        return sorted(name for name, effect in self._script.effects.items() if world[effect])

    def _stays(self, step_id: str) -> bool:
        last = self._last.get(step_id)
        return last is not None and last.row.event == "SUCCEEDED" and self._names[step_id] in self._script.effects

    def _name(self, step_id: str) -> str:
        original = rolled_back_id(step_id)
        if original is not None:
            return f"the rollback of {self._names.get(original, original)}"
        return self._names.get(step_id, step_id)


def _events(workspace: Workspace, correlation_id: str) -> list[Recorded]:
    with workspace.store.reading() as connection:
        return step_events(connection, TENANT, correlation_id)
