"""The input of all reports of a run, as pure data. The caller has already inspected the files."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final, NamedTuple

from remit.contracts.plans.change_log import DiffSummary
from remit.contracts.plans.error_codes import PlanError, plan_error
from remit.contracts.plans.pipeline_report import PipelineTold
from remit.contracts.plans.sql_report import SqlTold
from remit.contracts.plans.status import PlanStatus
from remit.core.errors import EnvironmentFailureError, Reason, RemitError
from remit.core.ids import parse_time, render_time
from remit.effects.plans.steps import Ids, Result, StepPlan
from remit.plans.storage.backups import Original

# The bound of all messages of a run together. An outcome must stay within the bounds of the parser that reads it.
_MAX_CHARACTERS: Final = 400_000
_LONGEST: Final = 4_000
_SHORTEST: Final = 300

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class RemoteAction(NamedTuple):
    """An action on a database server. It changes no file, so it has no step, but it has a result like a step."""

    number: int
    """Continues the numbers of the steps."""
    action_id: str
    action_type: str
    summary: str
    told: SqlTold | None
    """None if it could not be run."""
    problem: Mapping[str, str] | None = None
    """The reason why it cannot be done: reason, what, where, next_step."""

    @property
    def irreversible(self) -> str:
        """The reason why it cannot be rolled back. Empty if it can."""
        return (self.told.irreversible if self.told else None) or ""


class FinishedRun(NamedTuple):
    """A run of a plan that has ended, with any status."""

    plan_id: str
    ids: Ids
    folder: str
    """The report folder, below the root."""
    started_at: str
    completed_at: str
    status: PlanStatus
    steps: StepPlan
    results: tuple[Result, ...]
    diffs: Mapping[int, DiffSummary]
    """Masked diff summaries, by step number."""
    modified: Mapping[int, str]
    """The modification time of each file after the run, by path."""
    originals: Mapping[int, Original]
    rolled_back: bool
    """Changes were made and then undone."""
    warnings: tuple[str, ...] = ()
    problem: RemitError | None = None
    """The reason of a failure that is not the failure of one step."""
    sql: Mapping[int, SqlTold] = MappingProxyType({})
    """Reports of the steps that run SQL, by number, without rows."""
    remote: tuple[RemoteAction, ...] = ()
    """Actions on a server in the order of execution. They run before all steps."""
    pipelines: tuple[PipelineTold, ...] = ()
    """Reports of the actions that run a pipeline, including failed ones."""
    prepared_ms: int = 0
    """How long SQL and pipelines ran for the preview. The run put their results in place."""
    has_manifest: bool = True
    """False if the plan was known to fail before it started, so that no backups were made."""

    @property
    def message_limit(self) -> int:
        """The maximum length of one message, in characters."""
        return max(_SHORTEST, min(_LONGEST, _MAX_CHARACTERS // max(1, len(self.steps.steps) + len(self.remote))))


def error_of(result: Result) -> RemitError:
    """Return the error of a failed step. Building it again masks its texts."""
    error = result.error or {}
    try:
        reason = Reason(error.get("reason", ""))
    except ValueError:
        reason = Reason.INTERNAL
    what = error.get("what") or "the step failed and gave no reason"
    return EnvironmentFailureError(reason, what, where=error.get("where", ""), next_step=error.get("next_step", ""))


def render_error(problem: RemitError) -> str:
    """Return the error as one text that ends with a next step: its own one, or the one of its reason."""
    return str(problem.with_changes(next_step=problem.advice))


def code_of(problem: RemitError) -> PlanError:
    return plan_error(problem.reason)


def cut(text: str, message_limit: int) -> str:
    return text if len(text) <= message_limit else text[: message_limit - 3] + "..."


def time_of(nanoseconds: int) -> str:
    """Render the time of a file. A time outside the range of timestamps becomes the first or the last one."""
    try:
        return render_time(_EPOCH + timedelta(microseconds=nanoseconds // 1000))
    except OverflowError:
        return "9999-12-31T23:59:59.999999Z" if nanoseconds > 0 else "0001-01-01T00:00:00.000000Z"


def later(first: str, second: str) -> str:
    """Return the later of two times. A clock that was set back must not make a report inconsistent."""
    return max(first, second, key=parse_time)
