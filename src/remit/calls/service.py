"""Calls of one workspace: functions of this program behind the road, each call once, recovered after a crash.

The first call settles what a crash had left of the functions that are registered by then.
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
    """Each asked for when it is needed, and as it is then."""

    keyring: Callable[[], Keyring]
    executor: Callable[[], Signer]


class Functions(Mapping[str, GovernedFunction]):
    """What this program has put behind the road, by name. A plain registry: nothing gets in by itself."""

    def __init__(self) -> None:
        self._functions: dict[str, GovernedFunction] = {}

    def register(self, function: GovernedFunction) -> None:
        if function.name in self._functions:
            raise UsageError(
                Reason.MISUSE,
                "a function of this name is governed already",
                where=f"function {function.name}",
                next_step="Give it another name: a token allows it by that.",
            )
        self._functions[function.name] = function

    def __getitem__(self, name: str) -> GovernedFunction:
        return self._functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def listed(self) -> list[GovernedFunction]:
        """By name. Each tells its name, its description and the schema of its arguments, for whoever offers tools."""
        return [self._functions[name] for name in sorted(self._functions)]


class Calls:
    """Safe to use from several threads. `registry` may be added to at any time."""

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
        """For calls that are awaited: `call_when_approved` makes one as often as a person's answers want it."""
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
        """Call a governed function, once for each `key`: the same call again gives the same result.

        Arguments that do not fit the function raise `RefusedError`; all else comes back as an answer, unless neither
        success nor failure could be recorded, somebody else is at this very call for long, or it was begun and this
        token may not go on with it. Where a person has to say yes, the answer is `waiting` after `wait` seconds (None:
        as long as it takes), and the same call again goes on with it. Governed functions that it calls are called for
        the same agent, with keys made from this one. `loop` runs what is awaited; this call itself blocks, so it
        is not made in that loop's thread.
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
        """What a call would do: the same road, stopped before consent. Raises what a full run would refuse."""
        return run_operation(self._operation(), self._raw(name, key, arguments, token), self._context(), dry_run=True)

    def recover(
        self, *, excluded: Collection[str] = (), presumed_dead: Collection[str] = (), abandoned: Collection[str] = ()
    ) -> list[Recovered[CallResult]]:
        """Undo what can be undone, and say of the rest that nobody knows. Of what can be repeated, leave that open.

        What only waits, for a person's answer about a call within it or to be made again after that, is no trouble and
        not told.
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
                "a key has 1 to 200 printable characters, and a token is plain text",
                where=f"function {name}",
                next_step="Take the id of the agent's own tool call as the key.",
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
            self._recovered = True  # first: an undo that makes a governed call itself comes by here again
        for report in self.recover(excluded=excluded):
            if report.problem is not None:
                _LOG.warning("a call could not be settled", extra={"key": report.key, "why": str(report.problem)})

    def _context(self) -> ExecutionContext:
        return ExecutionContext(self._ledger(), self._clock, self._state.hosts)


def schema_of(function: GovernedFunction) -> Mapping[str, Any]:
    """The JSON Schema of a function's arguments."""
    return _schema(function.arguments)


@functools.cache
def _schema(model: type[Any]) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = model.model_json_schema()
    return schema
