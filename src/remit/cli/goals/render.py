"""The output of `remit ask`: how one cycle of a goal ended, for a person and for a program."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import click

from remit.cli.common.bidi import display_name, display_sentence, display_text
from remit.cli.common.suggest import LocationOptions, joined, quote_argument
from remit.cli.common.table import terminal_width
from remit.cli.goals.render_steps import render_goal_preview, render_steps
from remit.contracts.goals.goal import AgentExecutionOutcome
from remit.contracts.plans.sql_report import ToldColumn
from remit.contracts.services.common import WaitingFor
from remit.contracts.services.goal_preview import GoalPreview
from remit.contracts.services.goal_steps import GoalSteps
from remit.core.text import counted, printable
from remit.goals.finder.suggestions import Near
from remit.goals.messages.catalogue import is_right_to_left
from remit.goals.service import Reply
from remit.goals.status import GoalStatus
from remit.services.goals.hints import Hints
from remit.services.goals.reasons import DENIED_REASON
from remit.services.goals.states import GoalState, can_undo, state_of, waiting_for

DONE, FAILED, REFUSED, WAITING = 0, 1, 2, 3
_CODES: Final[dict[GoalState, int]] = {"done": DONE, "failed": FAILED, "refused": REFUSED, "waiting": WAITING}
_WORDS: Final = {
    DONE: ("done", "green"),
    FAILED: ("failed", "red"),
    REFUSED: ("refused", "red"),
    WAITING: ("waiting", "yellow"),
}
NEXT: Final[dict[str, str]] = {
    "SIMULATION_FAILED": "Read the record of its action: remit ledger trace{tenant} {correlation}",
    "SIMULATION_REFUSED": "Fix the problem above, then ask again.",
    "FINDER_REFUSED": "Use other words. To list the simulations: remit catalogue list{tenant}",
    "STEP_TIMEOUT": "Check whether it changed anything: remit ledger trace{tenant} {correlation}",
    "SIMULATION_MISSING": "The people who write simulations see it: remit intake{tenant}",
    "CANDIDATES_UNRESOLVED": "Ask more exactly. To list the simulations: remit catalogue list{tenant}",
    "PACKET_INVALID": "Ask again, because the catalogue has changed since.",
    "FIELDS_INVALID": "Ask again, with every required value: remit catalogue show{tenant} {simulation}",
    "SIMULATION_NOT_REGISTERED": "To list the simulations: remit catalogue list{tenant}",
    "SIMULATION_NOT_ACTIVE": "A person can promote it: remit catalogue promote{tenant} {simulation}",
    "ROLLBACK_PLAN_MISSING": "Name a `rollback` for it in the catalogue. Then run: remit catalogue check{here}",
    "CONFIRMATION_REFUSED": "To do it after all, ask again.",
    "CONFIRMATION_EXPIRED": "Ask again, and answer within ten minutes.",
    "CONFIRMATION_AMBIGUOUS": "Ask again, and answer with a word that the question names.",
    "CONFIRMATION_MISSING": "Ask again, and answer with a word that the question names.",
    "ACCESS_SCOPE_VIOLATION": "Check the users in remit.yaml, and the Cedar policies that it names: remit doctor{here}",
    "ACCESS_AP_REQUIRED": "Ask again, and let another person approve it within ten minutes: remit approvals{here}",
    "IDEMPOTENCY_VIOLATION": "See what was done under this id: remit ledger trace{tenant} {correlation}",
    "REPLAY_INVARIANT_FAILED": "Keep the database as it is, and run: remit ledger verify{here}",
}
ACCESS_NEXT: Final[dict[str, str]] = {
    DENIED_REASON: "To have it decided again, ask again. Who decided: remit ledger trace{tenant} {correlation}",
    "no policy permits it": "To permit it, add a Cedar policy for this user and the access_action of the simulation:"
    " remit catalogue show{tenant} {simulation}",
    "a policy forbids it": "The rule above forbids it. A person can change it in the Cedar files of remit.yaml.",
    "this user is not listed": "Add the user under `tenants` in remit.yaml, if the user may ask for goals.",
    "there are no access policies": "Name the Cedar files in remit.yaml, under policies.cedar_files.",
}
"""The advice for a refused access, by the beginning of the reason."""
_MOST_LANGUAGES: Final = 10
REPHRASE: Final = NEXT["FINDER_REFUSED"]
"""The advice for a code that is not in the table, because a Finder has codes of its own."""


class Cycle(NamedTuple):
    """The result of one cycle: the reply, and the current state of the goal."""

    reply: Reply
    status: GoalStatus | None
    location: LocationOptions = LocationOptions()
    """The options of this command that a suggested command repeats, so that it runs unchanged in the same place."""
    ended_before: bool = False
    """Whether the goal had ended before this command."""
    is_undoing: bool = False
    """Whether the command answers the question whether a goal with several steps is rolled back."""

    @property
    def event(self) -> str:
        return self.status.event if self.status is not None else ""

    @property
    def waiting_for(self) -> WaitingFor | None:
        """What the goal waits for. Reply and event must agree, because the event may belong to another goal."""
        return waiting_for(self.reply.outcome, self.event)

    @property
    def exit_code(self) -> int:
        if self.is_undoing and self.waiting_for is None:
            return DONE if self.event == "ROLLED_BACK" else FAILED if self.event == "ABORTED_PARTIAL" else REFUSED
        return _CODES[state_of(self.reply.outcome, self.event)]

    @property
    def can_undo(self) -> bool:
        """Whether the goal can be rolled back. A rollback cannot: the user can ask for the same goal again instead."""
        return self.status is not None and can_undo(self.reply.goal, self.status)

    def next_commands(self) -> list[list[str]]:
        """Return the commands that continue from here. They contain no answer: the user replaces words in capitals."""
        correlation = self.reply.goal.correlation_id
        ask = ["remit", "ask", *self.location.arguments]
        match self.waiting_for:
            case "confirmation":
                step = self.status.waiting_step if self.status is not None else None
                named = ("--step", step) if step is not None else ()
                return [[*ask, "--continue", correlation, *named, "--confirm", "ANSWER"]]
            case "approval":
                return [
                    ["remit", "approvals", "approve", *self.location.arguments, *quote_argument(correlation)],
                    [*ask, "--continue", correlation],
                ]
            case "clarification":
                return [[*ask, "--reply", correlation, "TEXT"]]
        return []

    def tree(self, hints: Hints, steps: GoalSteps | None = None, preview: GoalPreview | None = None) -> dict[str, Any]:
        goal = self.reply.goal
        return {
            "correlation_id": goal.correlation_id,
            "tenant_id": goal.tenant_id,
            "thread_id": goal.thread_id,
            "outcome": self.reply.outcome.tree(),
            **hints.tree(),
            "ended_before": self.status.at if self.ended_before and self.status is not None else None,
            "waiting_for": self.waiting_for,
            "next": self.next_commands(),
            **({"steps": steps.tree()} if steps is not None else {}),
            **({"preview": preview.tree()} if preview is not None else {}),
        }


def render_cycle(
    cycle: Cycle, hints: Hints, steps: GoalSteps | None = None, preview: GoalPreview | None = None
) -> Iterator[str]:
    outcome = cycle.reply.outcome
    correlation = cycle.reply.goal.correlation_id
    label, colour = _WORDS[cycle.exit_code]
    label = f"{label} before" if cycle.ended_before else label
    kept = "Nothing was rolled back. " if cycle.is_undoing and cycle.exit_code == REFUSED else ""
    yield f"{click.style(label, fg=colour, bold=True)}: {kept}{render_text(outcome)}"
    yield from render_steps(steps) if steps is not None else ()
    yield from render_goal_preview(preview) if preview is not None else ()
    yield from _answer(outcome.simulation_outcome.payload if outcome.simulation_outcome is not None else {})
    if cycle.exit_code != DONE and not kept:
        yield _row("code", display_name(outcome.reason_code))
    if cycle.ended_before and cycle.status is not None:
        yield _row("when", f"{cycle.status.at[:19]}Z; nothing was done now")
    if hints.why:
        yield _row("why", display_text(hints.why))
    for rule in hints.rules:
        yield _row("rule", display_name(rule.policy_id) + (f": {display_text(rule.reason)}" if rule.reason else ""))
    yield from _render_id(cycle)
    yield from (_row("near", _render_near(each)) for each in hints.near)
    if cycle.event == "ROLLED_BACK" and steps is None:
        yield _row("note", "It was rolled back since.")
    if cycle.can_undo:
        yield _row("undo", joined(("remit", "ask", *cycle.location.arguments, "--undo", correlation)))
    commands = [joined(command) for command in cycle.next_commands()]
    if not commands and cycle.exit_code != DONE and not kept:
        commands = [_advise(cycle, hints)]
    for number, command in enumerate(commands):
        yield _row("then" if number else "next", command)


def _advise(cycle: Cycle, hints: Hints) -> str:
    outcome = cycle.reply.outcome
    # A goal that was refused at the last gate may have the code of another goal, such as the goal to roll back.
    late = outcome.simulation_outcome is not None and cycle.exit_code == REFUSED
    advice = NEXT["SIMULATION_REFUSED"] if late else _find_advice(outcome.reason_code, hints.why)
    return fill_advice(advice, cycle)


def render_text(outcome: AgentExecutionOutcome) -> str:
    """Render the text for the user in the direction of its language."""
    return display_sentence(outcome.user_visible_text, right_to_left=is_right_to_left(outcome.text_language))


def _render_id(cycle: Cycle) -> Iterator[str]:
    goal = cycle.reply.goal
    yield _row("goal", shlex.quote(printable(goal.correlation_id)))
    if goal.thread_id != goal.correlation_id:
        yield _row("note", "This is the id of the reply. Use it from now on.")


def _find_advice(reason_code: str, why: str) -> str:
    """Return the advice for a code. For a refused access it depends on the reason."""
    if reason_code == "ACCESS_SCOPE_VIOLATION":
        for reason, advice in ACCESS_NEXT.items():
            if why.startswith(reason):
                return advice
    return NEXT.get(reason_code, REPHRASE)


def fill_advice(advice: str, cycle: Cycle) -> str:
    """Fill in the command of an advice, so that it can be run."""
    candidates = getattr(cycle.reply.goal.sim_finder_packet, "candidates", ())
    simulation = candidates[0].simulation_id if candidates else "ID"
    return advice.format(
        correlation=joined(quote_argument(cycle.reply.goal.correlation_id)),
        simulation=joined(quote_argument(simulation)),
        tenant=joined(("", *cycle.location.arguments))[2:],
        here=joined(("", *cycle.location.directory_arguments))[2:],
    )


def _render_near(near: Near) -> str:
    """Render a title with a phrase for it, or with the languages in which it has phrases."""
    title = display_text(near.title)
    if near.phrase is not None:
        return f"{title}. Say: {display_text(near.phrase)}"
    more = ", ..." if len(near.languages) > _MOST_LANGUAGES else ""
    return f"{title}. It has phrases in --lang {', '.join(map(display_name, near.languages[:_MOST_LANGUAGES]))}{more}"


def _answer(payload: Mapping[str, Any]) -> Iterator[str]:
    """Yield the rows that a read-only simulation returned."""
    answer = payload.get("answer")
    if not isinstance(answer, dict):
        return
    rows, count = answer["rows"], answer["result_rows"]
    if rows:
        # The module loads slowly (a tenth of a second), and only answers with rows need it.
        from remit.cli.plans.render_sql import render_rows  # noqa: PLC0415 - see above

        columns = [ToldColumn.from_tree(each) for each in answer["columns"]]
        yield from render_rows(columns, rows, terminal_width())
    more = f", of which the first {len(rows)} are shown" if count > len(rows) else ""
    yield f"  {counted(count, 'row')}{more}"


def _row(label: str, text: str) -> str:
    return f"  {label + ':':<6} {text}"
