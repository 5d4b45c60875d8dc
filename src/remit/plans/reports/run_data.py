"""What all papers of a run are made from. Pure data: whoever builds it has looked at the disk already."""

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

# All messages of a run together: an outcome must stay below the bounds of what is read again.
_MAX_CHARACTERS: Final = 400_000
_LONGEST: Final = 4_000
_SHORTEST: Final = 300

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class RemoteAction(NamedTuple):
    """An action on a database server. It changes no file, so it has no step, but a result like one."""

    number: int
    """They follow those of the steps."""
    action_id: str
    action_type: str
    summary: str
    told: SqlTold | None
    """None: it could not be run."""
    problem: Mapping[str, str] | None = None
    """Why it cannot be done: reason, what, where, next_step."""

    @property
    def irreversible(self) -> str:
        """Why it cannot be taken back, in words; empty if it can."""
        return (self.told.irreversible if self.told else None) or ""


class FinishedRun(NamedTuple):
    """A run of a plan that has ended, in whichever way."""

    plan_id: str
    ids: Ids
    folder: str
    """Of its papers, below the root."""
    started_at: str
    completed_at: str
    status: PlanStatus
    steps: StepPlan
    results: tuple[Result, ...]
    diffs: Mapping[int, DiffSummary]
    """Masked; by the number of the step."""
    modified: Mapping[int, str]
    """When each file was last modified, by its path, as seen after the run."""
    originals: Mapping[int, Original]
    rolled_back: bool
    """Something had been done, and was taken back."""
    warnings: tuple[str, ...] = ()
    problem: RemitError | None = None
    """Why it failed, where that was not the failure of one step."""
    sql: Mapping[int, SqlTold] = MappingProxyType({})
    """Of the steps that run SQL, by number; without a row."""
    remote: tuple[RemoteAction, ...] = ()
    """In the order in which they run, before all steps."""
    pipelines: tuple[PipelineTold, ...] = ()
    """Of the actions that run a pipeline, also of those that failed."""
    has_manifest: bool = True
    """Not where the plan was doomed from the start, so that nothing was to be kept."""

    @property
    def message_limit(self) -> int:
        """The characters that one message may have."""
        return max(_SHORTEST, min(_LONGEST, _MAX_CHARACTERS // max(1, len(self.steps.steps) + len(self.remote))))


def error_of(result: Result) -> RemitError:
    """What a step failed with, as one of our errors; made anew, and so masked."""
    error = result.error or {}
    try:
        reason = Reason(error.get("reason", ""))
    except ValueError:
        reason = Reason.INTERNAL
    what = error.get("what") or "it failed, and did not say why"
    return EnvironmentFailureError(reason, what, where=error.get("where", ""), next_step=error.get("next_step", ""))


def code_of(problem: RemitError) -> PlanError:
    return plan_error(problem.reason)


def cut(text: str, message_limit: int) -> str:
    return text if len(text) <= message_limit else text[: message_limit - 3] + "..."


def time_of(nanoseconds: int) -> str:
    """A file's time. Those that no timestamp can express become the first or the last one that can be."""
    try:
        return render_time(_EPOCH + timedelta(microseconds=nanoseconds // 1000))
    except OverflowError:
        return "9999-12-31T23:59:59.999999Z" if nanoseconds > 0 else "0001-01-01T00:00:00.000000Z"


def later(first: str, second: str) -> str:
    """Of two times: a clock that was set back must not make a report contradict itself."""
    return max(first, second, key=parse_time)
