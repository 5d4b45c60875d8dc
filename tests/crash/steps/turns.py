"""One turn of a user: a goal is asked for, or one question of it answered. Any worker takes the next turn."""

from collections.abc import Mapping
from typing import Any, Final

from remit.goals.composite.driver import StepsDriver
from remit.goals.composite.layout import WHOLE, is_undo
from remit.goals.composite.progress import ENDINGS
from remit.goals.service import Reply
from remit.ledger.goal_queries import Recorded, step_events
from remit.workspace.workspace import Workspace
from tests.crash.goals.worker import Job, Work
from tests.crash.steps.office import StepsOffice
from tests.crash.steps.scripts import Script
from tests.goals.goal_office import TENANT, USER

MORE: Final = "more"
MOST_TURNS: Final = 20
RECOVER: Final = "recover"
"""The name of a job that is no turn: everything that was interrupted is recovered, while others are at work."""
WAITS: Final = "it waits for a person"


def taking_turns(office: StepsOffice, scripts: Mapping[str, Script]) -> Work:
    """The work of a worker. It says `more`, or how the goal ended."""
    clear_before_attempts(office, scripts)

    def work(workspace: Workspace, job: Job) -> str:
        if job.name == RECOVER:
            workspace.recover()
            return RECOVER
        return take_turn(workspace, office, scripts[job.correlation_id])

    return work


def clear_before_attempts(office: StepsOffice, scripts: Mapping[str, Script]) -> None:
    """Take away an obstacle while the driver waits for the time of the next attempt, as its script says."""
    wait = StepsDriver._wait_until  # noqa: SLF001 - the world changes while it waits

    def waited(self: StepsDriver, at: Any, step: Any, attempt: int) -> None:
        scripts[self._goal.correlation_id].before_attempt(office, attempt)
        wait(self, at, step, attempt)

    StepsDriver._wait_until = waited  # type: ignore[method-assign]  # noqa: SLF001 - as above


def take_turn(workspace: Workspace, office: StepsOffice, script: Script) -> str:
    """Ask for the goal, which continues it, and answer the question that comes back. Say how it stands then."""
    if (ended := _ending(workspace, script)) is not None:
        return ended
    reply = _ask(workspace, script)
    if reply.outcome.reason_code in {"CONFIRMATION_REQUIRED", "CONFIRMATION_AMBIGUOUS"}:
        step_id = reply.outcome.step_id or ""
        name = office.names[step_id][1] if step_id in office.names else ""
        if name and name == script.kind.waits_at:
            return WAITS
        _click_twice(workspace, office, script, step_id)
        script.before_answer(office, name)
        word = script.kind.undo if is_undo(step_id) else script.answer(name)
        _answer(workspace, script, word, step_id)
    return _ending(workspace, script) or MORE


def run_to_end(workspace: Workspace, office: StepsOffice, script: Script) -> str:
    """Take turns until there is nothing more to do."""
    for _ in range(MOST_TURNS):
        if (said := take_turn(workspace, office, script)) != MORE:
            return said
    raise AssertionError(f"{script} does not come to an end")


def _ask(workspace: Workspace, script: Script) -> Reply:
    if _whole(_events(workspace, script)) == "COMPLETED":
        return workspace.goals.rollback(script.correlation_id, user=USER, tenant=TENANT)
    return workspace.goals.ask(script.utterance, user=USER, tenant=TENANT, correlation_id=script.correlation_id)


def _answer(workspace: Workspace, script: Script, word: str, step_id: str) -> Reply:
    return workspace.goals.answer(script.correlation_id, word, user=USER, tenant=TENANT, step=step_id)


def _click_twice(workspace: Workspace, office: StepsOffice, script: Script, step_id: str) -> None:
    """A second click on the yes of the step before. It never counts for this one."""
    order = office.order[script.composite]
    if script.number % 3 == 0 and step_id in order[1:]:
        _answer(workspace, script, "yes", order[order.index(step_id) - 1])


def _ending(workspace: Workspace, script: Script) -> str | None:
    """How the goal has ended, or None: there is more to do."""
    events = _events(workspace, script)
    whole = _whole(events)
    if whole not in ENDINGS:
        return None
    if script.kind.undo and whole == "COMPLETED":
        is_refused = any(is_undo(each.row.step_id) and each.row.event == "REFUSED" for each in events)
        return whole if is_refused else None
    return whole


def _events(workspace: Workspace, script: Script) -> list[Recorded]:
    with workspace.store.reading() as connection:
        return step_events(connection, TENANT, script.correlation_id)


def _whole(events: list[Recorded]) -> str:
    return next((each.row.event for each in reversed(events) if each.row.step_id == WHOLE), "")
