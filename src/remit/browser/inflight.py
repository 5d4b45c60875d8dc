"""Actions at work, and everybody who waits for each: the same action again joins the one that is under way."""

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Any

from remit.contracts.browser.browser import ActionResult, Approval
from remit.core.errors import Reason, RefusedError


class CallerLeftError(Exception):
    """Whoever joined an action does not want to hear how it ends. It goes on."""


@dataclass(frozen=True)
class BrowseHooks:
    """What a caller wants to hear of an action while it travels."""

    on_refusal: Callable[[RefusedError], None] = lambda _: None
    """Nothing was claimed or done."""
    on_stored: Callable[[], None] = lambda: None
    """The result is of an earlier call."""
    on_waiting: Callable[[Approval], None] = lambda _: None
    """A person has to answer this before the action can go on."""
    on_answered: Callable[[Approval], None] = lambda _: None
    """To whoever joins when the last question is answered already: what follows from it is on its way."""
    caller_left: "Future[None]" = field(default_factory=Future)
    """Done once the caller is gone."""
    on_retry: Callable[[int], None] = lambda _: None
    """It failed in a way that may pass, and is tried again, for the first, second or third time."""


@dataclass(eq=False)
class InflightAction:
    """One action under one token, from its first caller to its end."""

    result: "Future[ActionResult]" = field(default_factory=Future)
    hooks: list[BrowseHooks] = field(default_factory=list)
    approval_ids: list[str] = field(default_factory=list)
    is_at_work: bool = False
    """Whether its token was verified. Before that it keeps nobody else from the action."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def notify_waiting(self, approval: Approval) -> None:
        with self.lock:
            self.approval_ids.append(approval.approval_id)
            listeners = list(self.hooks)
        for each in listeners:
            each.on_waiting(approval)

    def notify_retry(self, number: int) -> None:
        for each in list(self.hooks):
            each.on_retry(number)

    def notify_refusal(self, problem: RefusedError) -> None:
        for each in list(self.hooks):
            each.on_refusal(problem)

    def notify_stored(self) -> None:
        for each in list(self.hooks):
            each.on_stored()

    def join(self, hooks: BrowseHooks, read_approval: Callable[[str], Approval]) -> None:
        """Tells whoever comes later what is open now. `read_approval` reads one from the store."""
        with self.lock:
            self.hooks.append(hooks)
            approval_ids = list(self.approval_ids)
        approvals = [read_approval(approval_id) for approval_id in approval_ids]
        pending = [approval for approval in approvals if approval.state == "PENDING"]
        for approval in pending:
            hooks.on_waiting(approval)
        if approvals and not pending:
            hooks.on_answered(approvals[-1])

    def wait(self, hooks: BrowseHooks) -> ActionResult:
        """For whoever joined: the result. CallerLeft if he is gone before; then nothing here remembers him."""
        ends: list[Future[Any]] = [self.result, hooks.caller_left]
        wait(ends, return_when=FIRST_COMPLETED)
        if not self.result.done():
            with self.lock:
                self.hooks.remove(hooks)
            raise CallerLeftError
        return self.result.result()


class InflightActions:
    """All that are under way, by the digests of the action and of the token."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._actions: dict[tuple[str, str], InflightAction] = {}

    def __bool__(self) -> bool:
        return bool(self._actions)

    def list_results(self) -> "list[Future[ActionResult]]":
        with self._lock:
            return [action.result for action in self._actions.values()]

    def find(self, action: str, token: str) -> InflightAction | None:
        return self._actions.get((action, token))

    def register(self, action: str, token: str) -> tuple[InflightAction, bool]:
        """The flight, and whether the caller is the one who flies it."""
        with self._lock:
            found = self._actions.get((action, token))
            if found is not None:
                return found, False
            self._actions[action, token] = inflight = InflightAction()
            return inflight, True

    def require_exclusive(self, action: str, inflight: InflightAction) -> None:
        """From here on this one is at work. Refuses, at once, if the action is at work under another token."""
        with self._lock:
            others = [other for (name, _), other in self._actions.items() if name == action and other is not inflight]
            if any(other.is_at_work for other in others):
                raise RefusedError(
                    Reason.IDEMPOTENCY_CONFLICT,
                    "this action is at work already, under another token",
                    next_step="Ask with the token that it was begun with; or give this one an action_id of its own.",
                )
            inflight.is_at_work = True

    def unregister(self, action: str, token: str) -> None:
        with self._lock:
            self._actions.pop((action, token), None)
