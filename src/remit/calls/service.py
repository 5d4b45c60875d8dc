"""The calls of one workspace. Each governed function is called under the engine, once for each key.

The first call recovers interrupted calls of the functions that are registered by then.
"""

import asyncio
import functools
import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from remit.approvals.service import ApprovalService
from remit.calls.acting import is_nested_key, nested_calls
from remit.calls.approval import AwaitsPersonError, SuspendedInCallError
from remit.calls.async_support import ApprovalWaiter
from remit.calls.checkpoint import CallRequest, CallTokens
from remit.calls.function import GovernedFunction, Invoker
from remit.calls.operation import CallOperation
from remit.contracts.base import Identifier
from remit.contracts.browser.browser import Approval
from remit.contracts.calls.call import CallAnswer, CallResult
from remit.core.errors import Reason, RefusedError, UsageError
from remit.core.ids import DEFAULT_TENANT, Clock
from remit.crypto.signing import Keyring, Signer
from remit.execution.engine import ExecutionContext, Preview, run_operation
from remit.execution.recovery import Recovered, recover
from remit.fs.state_dir import StateDirectory
from remit.ledger.writer import Ledger
from remit.store.claims import ClaimHeld, ClaimKey, read_claim
from remit.store.process_identity import remove_stale_locks

_LOG: Final = logging.getLogger("remit.calls")
_KEY: Final[TypeAdapter[str]] = TypeAdapter(Identifier)


@dataclass(frozen=True)
class CallKeys:
    """The keys for calls. Each is read when it is needed."""

    keyring: Callable[[], Keyring]
    executor: Callable[[], Signer]


class Functions(Mapping[str, GovernedFunction]):
    """The governed functions of this program, by name. Only `register` adds one."""

    def __init__(self) -> None:
        self._functions: dict[str, GovernedFunction] = {}

    def register(self, function: GovernedFunction) -> None:
        """Add a function. Raises `UsageError` if its name is taken."""
        if function.name in self._functions:
            raise UsageError(
                Reason.MISUSE,
                "a governed function of this name exists already",
                where=f"function {function.name}",
                next_step="Give it another name: tokens allow functions by their names.",
            )
        self._functions[function.name] = function

    def __getitem__(self, name: str) -> GovernedFunction:
        return self._functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def listed(self) -> list[GovernedFunction]:
        """Return the functions, sorted by name."""
        return [self._functions[name] for name in sorted(self._functions)]


class Calls:
    """The governed functions of this program, and the calls of them. Safe to use from several threads.

    `registry` holds the functions. They may be added at any time.
    """

    def __init__(
        self,
        state: StateDirectory,
        keys: CallKeys,
        tokens: Callable[[], CallTokens],
        approvals: Callable[[], ApprovalService],
        ledger: Callable[[], Ledger],
        clock: Clock,
    ) -> None:
        self.registry = Functions()
        self.patience = ApprovalWaiter(approvals)
        """Repeats an awaited call whenever a person has decided about it (`call_when_approved`)."""
        self._state = state
        self._keys = keys
        self._tokens = tokens
        self._approvals = approvals
        self._ledger = ledger
        self._clock = clock
        self._recovering = threading.Lock()
        self._recovered = False

    def run(
        self,
        name: str,
        arguments: bytes,
        *,
        token: str,
        key: str,
        wait: float | None = 0.0,
        on_waiting: Callable[[Approval], None] = lambda _: None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> CallAnswer:
        """Call a governed function for an agent, once for each `key`. The same call again returns the same result.

        Governed functions that it calls itself are called for the same agent, with keys made from this one.

        Args:
            name: The name of the function.
            arguments: The arguments, as a JSON object.
            token: The capability token of the agent.
            key: The id of the call. The id of the agent's own tool call is suitable.
            wait: How many seconds to wait for a person's decision. None waits without limit.
            on_waiting: Called with each approval request that the call waits for.
            loop: The event loop for an awaited function. This call blocks, so make it in another thread.

        Returns:
            A `CallAnswer`: `done` with the signed result, or `waiting` for a person. Then the same call continues it.

        Raises:
            RefusedError: The arguments do not fit the function.
            EnvironmentFailureError: Neither success nor failure could be recorded; another process works on this call
                for long; or an earlier call has not ended, and this token is not valid for it.
        """
        raw = self._raw(name, key, arguments, token)
        if not self._recovered:
            self._recover_once(excluded=(key,))
        operation = self._operation(Invoker(loop), wait, on_waiting)
        stored: list[bool] = []
        try:
            with nested_calls(token, key, wait):
                result = run_operation(operation, raw, self._context(), on_stored=lambda: stored.append(True))
        except (AwaitsPersonError, SuspendedInCallError) as waits:
            return CallAnswer(state="waiting", call_id=key, waiting=waits.waiting)
        if isinstance(result, Preview):
            raise UsageError(Reason.MISUSE, "a full run ended in a preview")
        return CallAnswer(state="done", call_id=key, result=result, stored=bool(stored))

    def preview(self, name: str, arguments: bytes, *, token: str, key: str) -> CallResult | Preview:
        """Preview a call. The engine stops before consent. Raises the refusal of a full run."""
        return run_operation(self._operation(), self._raw(name, key, arguments, token), self._context(), dry_run=True)

    def recover(
        self, *, excluded: Collection[str] = (), presumed_dead: Collection[str] = (), abandoned: Collection[str] = ()
    ) -> list[Recovered[CallResult]]:
        """Undo interrupted calls that have an undo function, and record the others as unknown.

        An idempotent call stays open, because it can be repeated. A call that only waits for a person's decision about
        a call within it is not reported.
        """
        operation = self._operation(recovers_only=True)
        recovered = recover(
            operation, self._context(), excluded=excluded, presumed_dead=presumed_dead, abandoned=abandoned
        )
        remove_stale_locks(self._state.hosts)
        if not any(report.problem for report in recovered):
            return recovered
        called = [report.action_id for report in self._approvals().listed("PENDING", "APPROVED")]
        return [report for report in recovered if report.problem is None or not is_nested_key(report.key, called)]

    def _raw(self, name: str, key: str, arguments: bytes, token: str) -> tuple[bytes, ...]:
        try:
            _KEY.validate_python(key, strict=True)
            return name.encode(), key.encode(), arguments, token.encode()
        except (ValidationError, UnicodeEncodeError):
            raise RefusedError(
                Reason.MALFORMED,
                "a key needs 1 to 200 printable characters, and a token must be plain text",
                where=f"function {name}",
                next_step="Use the id of the agent's own tool call as the key.",
            ) from None

    def _operation(
        self,
        invoke: Invoker | None = None,
        wait: float | None = 0.0,
        on_waiting: Callable[[Approval], None] = lambda _: None,
        *,
        recovers_only: bool = False,
    ) -> CallOperation:
        return CallOperation(
            self.registry,
            self._keys.keyring,
            self._keys.executor,
            self._tokens(),
            self._approvals(),
            invoke or Invoker(),
            wait,
            on_waiting,
            recovers_only,
            self._has_intent,
        )

    def _has_intent(self, request: CallRequest) -> bool:
        with self._ledger().store.reading_pooled() as connection:
            found = read_claim(connection, ClaimKey(DEFAULT_TENANT, CallOperation.name, request.call_id))
        return isinstance(found, ClaimHeld) and found.request_digest == request.digest

    def _recover_once(self, excluded: Collection[str]) -> None:
        with self._recovering:
            if self._recovered:
                return
            self._recovered = True  # set first, because an undo that makes a governed call calls this again
        for report in self.recover(excluded=excluded):
            if report.problem is not None:
                _LOG.warning("a call could not be recovered", extra={"key": report.key, "why": str(report.problem)})

    def _context(self) -> ExecutionContext:
        return ExecutionContext(self._ledger(), self._clock, self._state.hosts)


def schema_of(function: GovernedFunction) -> Mapping[str, Any]:
    """Return the JSON Schema of a function's arguments."""
    return _schema(function.arguments)


@functools.cache
def _schema(model: type[Any]) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = model.model_json_schema()
    return schema
