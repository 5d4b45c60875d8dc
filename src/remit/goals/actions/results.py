"""What a bound action leaves behind: the effect of a failure, and the outputs of a success. Pure.

A failed action may be tried again only if it surely left nothing. Each function names the fact that makes this certain.
In every other case the effect is unknown.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import JsonValue

from remit.contracts.browser.browser import Action, ActionResult
from remit.contracts.goals.simulation import (
    AmountField,
    DateField,
    EmailField,
    FieldSpec,
    IdentifierField,
    IntegerField,
    OutputSpec,
    PathField,
    TextField,
)
from remit.contracts.plans.outcome import PlanOutcome, PlanRefusal
from remit.contracts.tasks.result import ExecutionResult
from remit.contracts.tasks.task import INPUTS_BY_CAPABILITY
from remit.core.errors import Reason, RefusedError
from remit.execution.recovery import NOT_KNOWN
from remit.goals.binding.binding import READING_ACTIONS
from remit.goals.binding.fields import problem_with, read_text
from remit.goals.ports import Effect
from remit.masking import mask_text
from remit.plans.apply.abandoned import is_of_unknown_effect
from remit.plans.apply.verify_and_undo import NOT_RESTORED

_CUT: Final = 1_000
"""The length at which a report cuts a warning. The end of a longer one is not known."""
_MASKED: Final = re.compile(r"\*{3}|\.\.\.[A-Za-z0-9_-]{4}|\\")
"""The marks of masks, and the backslash with which an invisible character is spelled out."""
_FIELDS: Final[Mapping[str, FieldSpec]] = {
    "text": TextField(type="text", question="?", max_length=1_000),
    "identifier": IdentifierField(type="identifier", question="?"),
    "integer": IntegerField(type="integer", question="?"),
    "amount": AmountField(type="amount", question="?"),
    "date": DateField(type="date", question="?"),
    "email": EmailField(type="email", question="?"),
    "path": PathField(type="path", question="?"),
}


# --- the effect of a failure -----------------------------------------------------------------------------------------


def task_effect(result: ExecutionResult) -> Effect | None:
    """Return the effect of a task."""
    if result.status == "SUCCESS":
        return None
    # The operation records the FAILURE of a capability of Remit only after its undo is complete, or before its start.
    # Otherwise the task has no outcome. A person who closes such a task records that its effect is not known. Nothing
    # is known about a capability that another program registered: it may have sent something.
    is_ours = result.capability_id in INPUTS_BY_CAPABILITY
    is_closed = result.error is None or NOT_KNOWN in result.error.message
    return "NONE" if is_ours and not is_closed else "UNKNOWN"


def plan_effect(outcome: PlanOutcome | PlanRefusal, irreversible: Sequence[str], *, is_claimed: bool) -> Effect | None:
    """Return the effect of a plan.

    Args:
        outcome: The outcome or the refusal.
        irreversible: The actions that were approved as irreversible. Their effect may be outside of a transaction.
        is_claimed: Whether the plan has a claim. Another process may be at work on it then.

    Returns:
        The effect, or None for a plan that succeeded.
    """
    if isinstance(outcome, PlanRefusal):
        # Nothing was recorded as begun, and every change comes after that. Statements on a server are rolled back.
        return "NONE" if not is_claimed and not irreversible else "UNKNOWN"
    if outcome.status.status == "SUCCESS":
        return None
    # A run has one of these statuses if it was undone or never began. Two cases are excluded: a person closed it
    # without an undo, or the undo kept a file that another process had changed. The report names both.
    is_undone = outcome.status.status in {"FAILED", "ROLLED_BACK", "CANCELLED"}
    is_whole = not is_of_unknown_effect(outcome.report) and not any(
        NOT_RESTORED in warning or len(warning) >= _CUT for warning in outcome.report.warnings
    )
    return "NONE" if is_undone and is_whole and not irreversible else "UNKNOWN"


def rollback_effect(status: str) -> Effect | None:
    """Return the effect of the rollback of a plan, by its status."""
    if status == "EXECUTED":
        return None
    return "NONE" if status == "REFUSED" else "UNKNOWN"  # a refused rollback changed nothing, by its contract


def browser_effect(action: Action, result: ActionResult) -> Effect | None:
    """Return the effect of a browser action."""
    if result.success:
        return None
    # `sent` counts the requests that change something and were sent or may have been. An action that presses nothing
    # causes no others. That of an action that presses is not certain: a GET request is not counted, and a held request
    # may be sent later. But it never began if `result` is that of opening its page.
    presses_nothing = action.type in READING_ACTIONS or result.action_id != action.action_id
    is_closed = NOT_KNOWN in str(result.tree())
    return "NONE" if presses_nothing and result.sent == 0 and not is_closed else "UNKNOWN"


# --- the outputs of a success ----------------------------------------------------------------------------------------


def outputs_of_task(outputs: Mapping[str, OutputSpec], inputs: Mapping[str, Any], where: str) -> dict[str, JsonValue]:
    """Return the paths of a task as outputs. They are known before it runs.

    Refuses a path that the masks would change.
    """
    found: dict[str, JsonValue] = {}
    for name, spec in outputs.items():
        path = inputs.get(spec.source)
        if not isinstance(path, str):
            continue
        if mask_text(path) != path:
            raise _masked_error(name, where)
        found |= _typed(name, spec, path)
    return found


def outputs_of_row(
    outputs: Mapping[str, OutputSpec], columns: Sequence[str], row: Sequence[str | None], where: str
) -> dict[str, JsonValue]:
    """Return columns of a row as outputs. Refuses a value that is masked: nothing but the value itself is passed on.

    Args:
        outputs: The outputs of the simulation.
        columns: The names of the columns.
        row: The cells as the preview shows them: masked, and with invisible characters spelled out.
        where: The place for a refusal.

    Returns:
        The values. One that is NULL or not of its type is left out.

    Raises:
        RefusedError: A value is masked, or looks like a mask.
    """
    found: dict[str, JsonValue] = {}
    cells = dict(zip(columns, row, strict=False))
    for name, spec in outputs.items():
        cell = cells.get(spec.source)
        if cell is None:
            continue
        if _MASKED.search(cell):
            raise _masked_error(name, where)
        found |= _typed(name, spec, cell)
    return found


def _typed(name: str, spec: OutputSpec, text: str) -> dict[str, JsonValue]:
    field = _FIELDS[spec.type]
    value: JsonValue = read_text(field, text) if spec.type in {"integer", "amount"} else text
    return {} if value is None or problem_with(field, value) else {name: value}


def _masked_error(name: str, where: str) -> RefusedError:
    return RefusedError(
        Reason.CONTENT_REFUSED,
        f"the value of the output {name} is hidden, because it looks like a secret or personal data, or has characters"
        " that cannot be shown; so it cannot be passed to a later step",
        where=where,
        next_step="Give later steps another value, such as an id, and let their own query read this one.",
    )
