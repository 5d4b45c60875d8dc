"""What the tests of goals with several steps ask an office: its rows, its steps and its effects."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from remit.goals.composite import driver
from remit.goals.composite.layout import WHOLE, step_id_of
from remit.goals.service import Reply
from remit.ledger.goal_queries import Recorded, step_events
from tests.goals.composite.composites import COMPOSITE_POLICY, COMPOSITE_SIMULATIONS
from tests.goals.goal_office import TENANT, Office
from tests.support.task_workspace import MovableClock

SORTED: Final = ("copy", "one", "note")
"""The steps of `sort`, in the order in which they run."""
ASK: Final = "sort one as two and list"
FORM: Final = "form\n"


def steps_office(folder: Path, clock: MovableClock, url: str | None = None) -> Office:
    return Office(folder, clock=clock, url=url, simulations=COMPOSITE_SIMULATIONS, policy=COMPOSITE_POLICY)


def yes(office: Office, reply: Reply, word: str | None = "yes", **changes: Any) -> Reply:
    """Answer the question of the step that waits."""
    return office.answer(reply, word, **{"step": reply.outcome.step_id, **changes})


def answered(office: Office, words: str, count: int, **changes: Any) -> Reply:
    """A goal whose first questions are answered with yes."""
    reply = office.ask(words, **changes)
    for _ in range(count):
        reply = yes(office, reply)
    return reply


def ids(office: Office, simulation: str = "sort", steps: tuple[str, ...] = SORTED) -> dict[str, str]:
    """The ids of the steps, derived here from the digest of the promoted composite."""
    with office.workspace.store.reading_pooled() as connection:
        entry = office.goals.rules.catalogue(TENANT, connection).find(simulation)
    assert entry is not None
    return {name: step_id_of(entry.digest, name) for name in steps}


def rows(office: Office, reply: Reply, step_id: str | None = None) -> list[Recorded]:
    with office.workspace.store.reading() as connection:
        found = step_events(connection, TENANT, reply.goal.correlation_id)
    return [each for each in found if step_id is None or each.row.step_id == step_id]


def events(office: Office, reply: Reply, step_id: str = WHOLE) -> list[str]:
    return [each.row.event for each in rows(office, reply, step_id)]


def dispatched(office: Office, reply: Reply) -> list[str]:
    """The simulations of the goal, in the order of their first attempts."""
    return [str(each.row.simulation_id) for each in rows(office, reply) if each.row.event == "DISPATCHED"]


def claims(office: Office, reply: Reply) -> list[str]:
    """The keys of the dispatches that the goal made, with every attempt."""
    with office.workspace.store.reading() as connection:
        found = connection.rows(
            "SELECT key FROM claims WHERE scope = 'simulation' AND correlation_id = ? ORDER BY key",
            (reply.goal.correlation_id,),
        )
        return [row[0] for row in found]


def done(office: Office) -> set[str]:
    """The effects of `sort` that are there."""
    found = {"copy"} if (office.base / "two.txt").exists() else set()
    found |= {"one"} if office.archived() == ["one"] and "one" not in office.notes() else set()
    return found | ({"note"} if "list" in office.notes() else set())


def differences(office: Office, reply: Reply) -> list[str]:
    """What the replay of a goal does not agree with."""
    replayed = office.goals.replay(reply.goal.correlation_id, tenant=TENANT)
    assert replayed
    return [each.why for each in replayed if not each.agrees]


class Waits:
    """The waits between attempts. They take no time: the clock is moved. `before` runs at the n-th one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, clock: MovableClock) -> None:
        self.seconds: list[float] = []
        self.before: dict[int, Callable[[], object]] = {}
        self.clock = clock
        monkeypatch.setattr(driver, "time", SimpleNamespace(sleep=self))

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self.clock.offset += timedelta(seconds=seconds)
        self.before.get(len(self.seconds), lambda: None)()
