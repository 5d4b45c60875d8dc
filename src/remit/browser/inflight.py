"""Running actions and the callers that wait for each. A call for the same action joins the running one."""

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Any

from remit.contracts.browser.browser import ActionResult, Approval
from remit.core.errors import Reason, RefusedError


class CallerLeftError(Exception):
    """Raised when a caller that waits for an action disconnects. The action goes on."""


@dataclass(frozen=True)
class BrowseHooks:
    """The callbacks through which a caller follows a running action."""

    on_refusal: Callable[[RefusedError], None] = lambda _: None
    """The action was refused. Nothing was claimed or done."""
    on_stored: Callable[[], None] = lambda: None
    """The result is the stored one of an earlier call."""
    on_waiting: Callable[[Approval], None] = lambda _: None
    """The action waits for a person to answer this approval request."""
    on_answered: Callable[[Approval], None] = lambda _: None
    """For a caller that joins after the last approval request was answered: the action goes on."""
    caller_left: "Future[None]" = field(default_factory=Future)
    """Done when the caller has disconnected."""
    on_retry: Callable[[int], None] = lambda _: None
    """The action failed with an error that may pass, and is tried again. The number of the retry begins with 1."""


@dataclass(eq=False)
class InflightAction:
    """One running action under one token, from its first caller to its end."""

    result: "Future[ActionResult]" = field(default_factory=Future)
    hooks: list[BrowseHooks] = field(default_factory=list)
    approval_ids: list[str] = field(default_factory=list)
    is_at_work: bool = False
    """Whether its token was verified. Before that it does not block the same action under another token."""
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
        """Add a caller and tell it which approval requests are pending. `read_approval` reads one from the store."""
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
        """Return the result to a caller that joined. If the caller disconnects before, its callbacks are removed and
        CallerLeftError is raised.
        """
        ends: list[Future[Any]] = [self.result, hooks.caller_left]
        wait(ends, return_when=FIRST_COMPLETED)
        if not self.result.done():
            with self.lock:
                self.hooks.remove(hooks)
            raise CallerLeftError
        return self.result.result()


class InflightActions:
    """All running actions, by the digests of the action and of the token."""

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
        """Return the running action, and whether this caller is the first and has to run it."""
        with self._lock:
            found = self._actions.get((action, token))
            if found is not None:
                return found, False
            self._actions[action, token] = inflight = InflightAction()
            return inflight, True

    def require_exclusive(self, action: str, inflight: InflightAction) -> None:
        """Mark this action as running. Refuses at once if the same action runs under another token."""
        with self._lock:
            others = [other for (name, _), other in self._actions.items() if name == action and other is not inflight]
            if any(other.is_at_work for other in others):
                raise RefusedError(
                    Reason.IDEMPOTENCY_CONFLICT,
                    "this action is already running under another token",
                    next_step="Use the token with which it was begun, or give this action an action_id of its own.",
                )
            inflight.is_at_work = True

    def unregister(self, action: str, token: str) -> None:
        with self._lock:
            self._actions.pop((action, token), None)
