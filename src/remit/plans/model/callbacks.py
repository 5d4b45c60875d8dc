"""Callbacks of a caller that follows a plan. Imports very little, because every command loads this module."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from remit.core.errors import RefusedError

if TYPE_CHECKING:
    from remit.contracts.plans.status import StatusUpdate
    from remit.execution.recovery import Recovered


def _ignore(*_: Any) -> None:
    """Ignore an event that no caller asked for."""


class LaterRollback(NamedTuple):
    """A rollback of a run since its outcome: by which order, when, and whether all of it was restored."""

    order_id: str
    at: str
    whole: bool


@dataclass(frozen=True, slots=True)
class PlanHooks:
    """Callbacks that report the progress of a plan, and the caller's means to cancel it."""

    on_refusal: Callable[[RefusedError], None] = _ignore
    on_stored: Callable[[], None] = _ignore
    on_progress: Callable[[int, int], None] = _ignore
    """Called with the number of steps that have ended, and the number of all steps."""
    on_status: Callable[["StatusUpdate"], None] = _ignore
    is_cancelled: Callable[[], bool] = lambda: False
    on_taken_back: Callable[[LaterRollback], None] = _ignore
    """Called after `on_stored` if the run of the stored outcome has been rolled back since."""
    on_settled: Callable[[Sequence["Recovered[Any]"]], None] = _ignore
    """Called first if a crash left interrupted operations: with the outcome of each, or the reason why it has none."""
    actor: str | None = None
    """The caller, whom the intent names. The intent is not recorded if their session or token is invalid by then."""


NO_HOOKS: Final = PlanHooks()
