"""What a caller can hear of a plan while it travels. Loads next to nothing: every command has it, most have no plan."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from remit.core.errors import RefusedError

if TYPE_CHECKING:
    from remit.contracts.plans.status import StatusUpdate
    from remit.execution.recovery import Recovered


def _ignore(*_: Any) -> None:
    """Nobody asked to hear of it."""


class LaterRollback(NamedTuple):
    """That a run was taken back since: by which order, when, and whether all of it is as before."""

    order_id: str
    at: str
    whole: bool


@dataclass(frozen=True, slots=True)
class PlanHooks:
    """What a caller wants to hear while a plan travels, and his way to cancel it."""

    on_refusal: Callable[[RefusedError], None] = _ignore
    on_stored: Callable[[], None] = _ignore
    on_progress: Callable[[int, int], None] = _ignore
    """So many of so many steps have ended."""
    on_status: Callable[["StatusUpdate"], None] = _ignore
    is_cancelled: Callable[[], bool] = lambda: False
    on_taken_back: Callable[[LaterRollback], None] = _ignore
    """Called after `on_stored`, if the run whose outcome it is does not stand any more."""
    on_settled: Callable[[Sequence["Recovered[Any]"]], None] = _ignore
    """Called first, if a crash had left something: what came of each, or why it could not be settled."""
    actor: str | None = None
    """Who asks for it: the intent names him, and is not written if he does not count by then."""


NO_HOOKS: Final = PlanHooks()
