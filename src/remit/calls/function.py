"""What a program declares about a function that it puts behind the call door, and how the function is called."""

import asyncio
import contextlib
import contextvars
import inspect
import re
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal, get_args

from remit.contracts.base import RiskLevel
from remit.contracts.browser.capabilities import CALL, CALL_NAME
from remit.contracts.calls.call import CallArguments
from remit.core.errors import Reason, UsageError

Consent = Literal["person", "policy", "none"]
Verdict = Literal["allow", "ask", "refuse"]
VERDICTS: Final = frozenset({"allow", "ask", "refuse"})

APPROVAL_REQUEST_LIFE: Final = timedelta(hours=24)
"""How long a person has for an answer, and the agent to use it: nothing is held meanwhile."""
_POLL_SECONDS: Final = 1.0
"""How long it can go unnoticed that an event loop has ended."""


class NotDoneError(Exception):
    """Raised by a governed function that surely changed nothing: the result then says so, instead of `unknown`."""


@dataclass(frozen=True)
class GovernedFunction:
    """A governed function. Its companions are called with the same arguments, by name; what else they get comes first.

    `preview` makes the sentence that a person reads; `allow` says yes, no or ask; `before` returns what `undo` will
    need, as JSON; `undo` puts that back, also after a call that did nothing; `verify` looks whether the world is as the
    function said.
    """

    name: str
    run: Callable[..., Any]
    arguments: type[CallArguments]
    description: str
    consent: Consent = "person"
    risk: RiskLevel = "MEDIUM"
    read_only: bool = False
    idempotent: bool = False
    """The same call a second time changes nothing more: one that was cut short may be made again."""
    preview: Callable[..., str] | None = None
    allow: Callable[..., Any] | None = None
    before: Callable[..., Any] | None = None
    undo: Callable[..., Any] | None = None
    verify: Callable[..., Any] | None = None
    private: Collection[str] = ()
    """Arguments that nobody is shown."""

    def __post_init__(self) -> None:
        if not re.fullmatch(CALL_NAME, self.name):
            raise _declaration_error(self.name, "its name is not of words like `crm.set_discount`")
        self._require_no_generators()
        if self.consent not in {"person", "policy", "none"}:
            raise _declaration_error(self.name, "consent is person, policy or none")
        if self.risk not in get_args(RiskLevel):
            raise _declaration_error(self.name, f"risk is one of {', '.join(get_args(RiskLevel))}")
        if self.consent == "none" and not self.is_harmless:
            raise _declaration_error(self.name, "nobody is asked only about what just reads, or can be undone")
        if self.consent == "policy" and self.allow is None:
            raise _declaration_error(self.name, "a policy needs a rule: allow=")
        if self.read_only and self.undo is not None:
            raise _declaration_error(self.name, "what only reads has nothing to undo")
        if self.before is not None and self.undo is None:
            raise _declaration_error(self.name, "what is kept before it is for undo=, and there is none")
        unknown = set(self.private) - set(self.arguments.model_fields)
        if unknown:
            raise _declaration_error(self.name, f"there is no argument {min(unknown)!r} to keep private")

    def _require_no_generators(self) -> None:
        for what in ("run", "preview", "allow", "before", "undo", "verify"):
            companion = getattr(self, what)
            if inspect.isgeneratorfunction(companion) or inspect.isasyncgenfunction(companion):
                which = "it" if what == "run" else f"{what}="
                raise _declaration_error(self.name, f"{which} yields, so to call it does nothing yet")

    @property
    def capability(self) -> str:
        return CALL + self.name

    @property
    def is_harmless(self) -> bool:
        return self.read_only or self.undo is not None

    @property
    def undo_description(self) -> str:
        if self.read_only:
            return "It only reads: there is nothing to take back."
        if self.undo is None:
            return "None: what it does stays done."
        return "It is undone if it fails or is cut short."

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.run)


@dataclass(frozen=True)
class Invoker:
    """Calls a function or a companion. What is awaited is run by the caller's own event loop, if he has one."""

    loop: asyncio.AbstractEventLoop | None = None

    def __call__(self, function: Callable[..., Any], *first: Any, **arguments: Any) -> Any:
        made = function(*first, **arguments)
        if not inspect.isawaitable(made):
            return made
        if self.loop is not None and not self.loop.is_closed():
            return _run_in_loop(made, self.loop)
        return _run_in_new_loop(made)


async def _await_result(made: Any) -> Any:
    return await made


def _run_in_loop(made: Any, loop: asyncio.AbstractEventLoop) -> Any:
    """In a loop of another thread. One that ends before it has looked at this would leave us waiting for ever."""
    coroutine = _await_result(made)
    future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    while True:
        try:
            return future.result(_POLL_SECONDS)
        except TimeoutError:
            if future.done():
                raise  # the function's own
            is_over = not loop.is_running() and not threading.main_thread().is_alive()
            if loop.is_closed() or is_over:
                _close(coroutine)
                _close(made)
                raise RuntimeError("the event loop ended before the function did") from None


def _close(coroutine: Any) -> None:
    """Nobody will run it any more. Whatever it says to that."""
    with contextlib.suppress(Exception):
        coroutine.close()


def _run_in_new_loop(made: Any) -> Any:
    """In a thread: this one may have a loop that runs already."""
    future: Future[Any] = Future()

    def work() -> None:
        try:
            future.set_result(asyncio.run(_await_result(made)))
        except BaseException as problem:  # noqa: BLE001 - raised again where it is waited for
            future.set_exception(problem)

    threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True).start()
    return future.result()


def named(arguments: CallArguments) -> Mapping[str, Any]:
    """What the function is called with: each argument as its annotation says."""
    return {name: getattr(arguments, name) for name in type(arguments).model_fields}


def _declaration_error(name: str, why: str) -> UsageError:
    return UsageError(
        Reason.MISUSE,
        f"this function cannot be governed like that: {why}",
        where=f"function {name}",
        next_step="See docs/how-to/govern-a-function.md.",
    )
