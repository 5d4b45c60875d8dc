"""The browser actions of one workspace: run actions and held requests through the engine, and recover after a crash.

The first action that needs a browser starts it in this process, and it ends with this process. `remit.browser_daemon`
is a browser that stays open from one command to the next.
"""

import concurrent.futures
import contextlib
import functools
import logging
import threading
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final

from remit.approvals.service import ApprovalService
from remit.authority.capability_token import Token
from remit.browser.checkpoint import RequestOutcome
from remit.browser.held_requests import PendingOutcome, PendingRequest
from remit.browser.inflight import BrowseHooks, InflightAction, InflightActions
from remit.browser.operation import BrowserOperation, encode_token
from remit.browser.recovery import EarlierAction, RequestFate, find_earlier, read_requests
from remit.browser.request_operation import HeldRequestOperation
from remit.browser.request_preview import Context
from remit.browser.retry import Retries, Sleep
from remit.browser.timeout import ActionTime
from remit.browser.types import BrowserPort, TokenVerifier
from remit.contracts.browser.browser import Action, ActionResult
from remit.contracts.config.config import SystemConfig
from remit.core.canonical import digest_bytes
from remit.core.errors import EnvironmentFailureError, Reason, RemitError, UsageError
from remit.core.ids import DEFAULT_TENANT, Clock
from remit.execution.engine import ExecutionContext, Preview, run_operation
from remit.execution.recovery import Recovered, recover
from remit.fs.state_dir import StateDirectory
from remit.ledger.entry import NewEntry
from remit.ledger.writer import Ledger
from remit.observability.browser_metrics import INSTALL, SUCCESS, Metrics
from remit.store.process_identity import remove_stale_locks

if TYPE_CHECKING:
    from remit.browser.driver import BrowserDriver
    from remit.browser.sessions import Tab

END_SECONDS: Final = 15.0
_LOG: Final = logging.getLogger("remit.browsing")


class BrowserActions:
    """The browser actions of one workspace. Several threads may use it. Close it after use; otherwise the browser ends
    with this process.
    """

    def __init__(
        self,
        state: StateDirectory,
        config: Callable[[], SystemConfig],
        tokens: Callable[[], TokenVerifier],
        approvals: Callable[[], ApprovalService],
        ledger: Callable[[], Ledger],
        clock: Clock,
        sleep: Sleep = time.sleep,
    ) -> None:
        self._state = state
        self._config = config
        self._tokens = tokens
        self._approvals = approvals
        self._ledger = ledger
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._driver: BrowserDriver | None = None
        self._inflight = InflightActions()
        self._recovered = False
        self._is_closing = False

    @functools.cached_property
    def metrics(self) -> Metrics:
        return Metrics(lambda: len(self._approvals().listed("PENDING")))

    @property
    def is_busy(self) -> bool:
        """Whether an action is running, or a request waits for a person."""
        return bool(self._inflight) or (self._driver is not None and self._driver.is_busy)

    @property
    def sessions(self) -> int:
        return 0 if self._driver is None else self._driver.sessions

    def browse(self, action: bytes, token: str, hooks: BrowseHooks | None = None) -> ActionResult:
        """Run one action to its end. Raises if the bytes are not a valid action. Every other outcome is returned as a
        result and recorded.

        If the same action under the same token is running, it is not begun again. Both callers get its result.
        """
        hooks = hooks or BrowseHooks()
        text = encode_token(token)
        parsed = Action.parse(action)
        key = (parsed.digest(), digest_bytes(text))
        inflight, is_first = self._inflight.register(*key)
        inflight.join(hooks, lambda approval_id: self._approvals().show(approval_id))
        if not is_first:
            return inflight.wait(hooks)
        try:
            result = self._run_action(parsed, key[0], (action, text), inflight)
        except BaseException as problem:
            inflight.result.set_exception(problem)
            raise
        else:
            inflight.result.set_result(result)
            return result
        finally:
            self._inflight.unregister(*key)

    def _run_action(
        self, parsed: Action, name: str, raw: tuple[bytes, bytes], inflight: InflightAction
    ) -> ActionResult:
        self._recover_once()
        started = time.monotonic()
        operation = self._build_operation(
            parsed, inflight, functools.partial(self._inflight.require_exclusive, name, inflight)
        )
        outcome = run_operation(
            operation, raw, self._build_context(), on_refusal=inflight.notify_refusal, on_stored=inflight.notify_stored
        )
        if isinstance(outcome, Preview):
            raise UsageError(Reason.MISUSE, "a full run ended in a preview")
        with contextlib.suppress(
            EnvironmentFailureError
        ):  # metrics need an extra; without it nothing is counted, and everything else works
            status = SUCCESS if outcome.error is None else outcome.error.code
            self.metrics.count(parsed.type, status, time.monotonic() - started)
        return outcome

    def recover(
        self, *, presumed_dead: Collection[str] = (), abandoned: Collection[str] = ()
    ) -> list[Recovered[ActionResult] | Recovered[RequestOutcome]]:
        """Record the outcomes of what processes that died had begun. Their approval requests become void, their
        requests have an unknown fate, and their actions failed.
        """
        self._approvals().void_orphans()
        named = {"presumed_dead": presumed_dead, "abandoned": abandoned}
        requests = recover(HeldRequestOperation(self._tokens(), self._approvals()), self._build_context(), **named)
        actions = recover(self._build_operation(None, InflightAction()), self._build_context(), **named)
        remove_stale_locks(self._state.hosts)
        return [*requests, *actions]

    def waits_for_person(self, jti: str) -> bool:
        """Whether an action under this token waits for an approver's answer."""
        return self._driver is not None and self._driver.waits_for_person(jti)

    def within(self, seconds: float, jti: str, revoke: Callable[[], None]) -> ActionTime:
        """Return a time limit, as a `with`, for the work under this token. When it is over, the token is revoked and
        its sessions end. Nothing more is sent, and the running action ends.
        """

        def end_sessions() -> None:
            if self._driver is not None:
                self._driver.end_sessions_of(jti)

        def end() -> None:
            for step in (revoke, end_sessions):
                try:
                    step()
                except RemitError as problem:
                    _LOG.warning("an action could not be ended", extra={"jti": jti, "why": str(problem)})

        return ActionTime(seconds, lambda: self.waits_for_person(jti), end)

    def close(self) -> None:
        """Close the browser. Pending approval requests become void, and each running action gets a recorded outcome."""
        with self._lock:
            self._is_closing = True
            driver = self._driver
        results = self._inflight.list_results()
        if driver is None:
            return
        try:
            driver.end_sessions()
            concurrent.futures.wait(results, END_SECONDS)
        finally:
            self._driver = None
            driver.close()

    # --- internal ----------------------------------------------------------------------------------------------------

    def _build_operation(
        self, action: Action | None, inflight: InflightAction, require_exclusive: Callable[[], None] = lambda: None
    ) -> BrowserOperation:
        return BrowserOperation(
            self._tokens(),
            self._approvals(),
            self._get_driver,
            Retries(functools.partial(self._record_retry, action, inflight), self._sleep),
            self._config().policies.currency,
            self._clock,
            on_waiting=inflight.notify_waiting,
            require_exclusive=require_exclusive,
            read_requests=self._read_requests,
            find_earlier=self._find_earlier,
        )

    def _find_earlier(self, action_id: str, request_digest: str, jti: str) -> EarlierAction | None:
        with self._ledger().store.reading() as connection:
            return find_earlier(connection, action_id, request_digest, jti)

    def _read_requests(self, action_id: str) -> list[RequestFate]:
        with self._ledger().store.reading() as connection:
            return read_requests(connection, action_id)

    def _get_driver(self) -> BrowserPort:
        with self._lock:
            if self._driver is None and self._is_closing:
                raise EnvironmentFailureError(
                    Reason.CANCELLED, "the browser is closing", next_step="Ask for the action again."
                )
            if self._driver is None:
                try:
                    # The library that drives the browser is an extra, and slow to import.
                    from remit.browser.driver import BrowserDriver, BrowserFolders  # noqa: PLC0415 - see above
                except ImportError as missing:
                    raise EnvironmentFailureError(
                        Reason.EFFECT_FAILED,
                        f"the package that drives the browser is not installed ({missing.name})",
                        next_step=f"Install it with: {INSTALL}",
                    ) from None
                config = self._config()
                self._driver = BrowserDriver(
                    config.browser,
                    BrowserFolders(self._state.path / "browser", (self._state.path,)),
                    self._why_invalid,
                    self._run_held_request,
                    self._void_approval,
                    unsafe=config.sandbox == "unsafe-none",
                )
            return self._driver

    def _run_held_request(
        self, tab: "Tab", held: PendingRequest, context: Context, picture: str | None
    ) -> PendingOutcome:
        """Run the operation of one held request, in a thread of its own."""
        # No caller waits for a late request, or for one that the page sends by itself.
        inflight = None if not held.is_awaited else self._inflight.find(held.cause.action.digest(), tab.token.digest)
        problems: list[RemitError] = []
        operation = HeldRequestOperation(
            self._tokens(),
            self._approvals(),
            held,
            tab.token,
            context,
            picture,
            self._config().policies.currency,
            on_waiting=inflight.notify_waiting if inflight is not None else lambda _: None,
            on_problem=problems.append,
        )
        outcome = run_operation(operation, (b"",), self._build_context())
        if isinstance(outcome, Preview):
            raise UsageError(Reason.MISUSE, "a full run ended in a preview")
        if outcome.state in {"ANSWERED", "SENT"}:
            return PendingOutcome(outcome.status)
        return PendingOutcome(problem=problems[-1] if problems else _not_sent_error(outcome))

    def _why_invalid(self, token: Token) -> str:
        try:
            with self._ledger().store.reading_pooled() as connection:
                self._tokens().require_still_valid(connection, token, self._clock())
        except RemitError as problem:
            return problem.what
        return ""

    def _void_approval(self, approval_id: str, why: str) -> None:
        try:
            self._approvals().void([approval_id], why)
        except RemitError as problem:
            _LOG.warning(
                "an approval request could not be voided", extra={"approval_id": approval_id, "why": str(problem)}
            )

    def _record_retry(self, action: Action | None, inflight: InflightAction, number: int, problem: RemitError) -> None:
        action_id = action.action_id if action is not None else "unknown"
        kind = action.type if action is not None else "unknown"
        payload: dict[str, Any] = {"retry": number, "why": problem.as_json()}
        event = NewEntry(DEFAULT_TENANT, "browser.retried", action_id, payload, capability_id=f"browser.{kind}")
        self._ledger().append(event)
        inflight.notify_retry(number)

    def _recover_once(self) -> None:
        with self._lock:
            if self._recovered:
                return
            self._recovered = True
        for report in self.recover():
            if report.problem is not None:
                _LOG.warning("an action could not be recovered", extra={"key": report.key, "why": str(report.problem)})

    def _build_context(self) -> ExecutionContext:
        return ExecutionContext(self._ledger(), self._clock, self._state.hosts)


def _not_sent_error(outcome: RequestOutcome) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason(outcome.reason or Reason.EFFECT_FAILED.value), outcome.problem or "it was not sent"
    )
