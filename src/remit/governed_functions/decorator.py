"""The decorator, and what becomes of a function by it.

From an answer to what the function returned, for whoever wants a value or an exception.
"""

import asyncio
import functools
import inspect
import json
from collections.abc import Callable, Collection
from typing import Any, Generic, ParamSpec, TypeVar

from remit.calls.acting import acting, require_acting
from remit.calls.approval import WaitsForPersonError
from remit.calls.function import Consent, GovernedFunction
from remit.calls.signature import model_of
from remit.contracts.base import Contract, RiskLevel
from remit.contracts.browser.browser import Approval
from remit.contracts.calls.call import CallAnswer
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, UsageError
from remit.core.ids import uuid7
from remit.workspace.workspace import Workspace


def value_of(answer: CallAnswer) -> Any:
    """The value of a call that succeeded. Raises `RefusedError` where nothing happened, else
    `EnvironmentFailureError`.
    """
    if answer.waiting is not None:
        raise WaitsForPersonError(answer.waiting)
    if answer.result is None or answer.result.error is not None:
        error = answer.result.error if answer.result is not None else None
        if answer.result is None or error is None:
            raise EnvironmentFailureError(Reason.INTERNAL, "an answer without a result")
        kind = RefusedError if answer.result.effect == "none" else EnvironmentFailureError
        raise kind(Reason(error.code), error.what, where=error.where, next_step=error.next_step)
    return answer.result.value


P = ParamSpec("P")
R = TypeVar("R")


class Governed(Generic[P, R]):
    """A function that is called for an agent only, on the road. `.call` tells all; a plain call returns or raises."""

    def __init__(self, workspace: Workspace, function: GovernedFunction) -> None:
        self._workspace = workspace
        self.function = function
        self._signature = inspect.signature(function.run)
        functools.update_wrapper(self, function.run)

    def call(self, *, token: str, key: str, wait: float | None = 0.0, **arguments: Any) -> CallAnswer:
        """Call it for the agent of `token`, once for each `key`: the same call again gives the same result.

        The answer is `done` with a signed result, or `waiting` for a person: then the same call later goes on with it.
        `wait` is how many seconds to wait for him; None, as long as it takes.
        """
        if self.function.is_async and _is_in_loop():
            raise UsageError(
                Reason.MISUSE,
                "this function is awaited, and there is an event loop",
                where=f"function {self.function.name}",
                next_step="await .acall(token=..., key=..., ...)",
            )
        return self._run(token, key, wait, arguments)

    async def acall(self, *, token: str, key: str, wait: float | None = 0.0, **arguments: Any) -> CallAnswer:
        """The same, awaited. What was begun goes on, also when nobody awaits it any more; a wait holds no thread."""
        loop = asyncio.get_running_loop()
        patience = self._workspace.calls.patience
        with acting(token, wait=wait):  # the calls that it makes have the patience that was given to it
            return await patience.call_when_approved(lambda: self._run(token, key, 0.0, arguments, loop), wait)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """A plain call, within `with acting(token):`. Returns what the function returned, or raises; see `value_of`."""
        who = require_acting(self.function.name)
        arguments = self._bound(args, kwargs)
        key = who.key_of(self.function.name, arguments) or uuid7(self._workspace.clock())
        if self.function.is_async:
            awaited: Any = self._value_later(who.token, key, who.wait, arguments)
            made: R = awaited
            return made
        value: R = value_of(self.call(token=who.token, key=key, wait=who.wait, **arguments))
        return value

    async def _value_later(self, token: str, key: str, wait: float | None, arguments: dict[str, Any]) -> Any:
        return value_of(await self.acall(token=token, key=key, wait=wait, **arguments))

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        try:
            return dict(self._signature.bind(*args, **kwargs).arguments)
        except TypeError as problem:
            raise RefusedError(Reason.MALFORMED, str(problem), where=f"arguments of {self.function.name}") from None

    def _run(
        self,
        token: str,
        key: str,
        wait: float | None,
        arguments: dict[str, Any],
        loop: asyncio.AbstractEventLoop | None = None,
        on_waiting: Callable[[Approval], None] = lambda _: None,
    ) -> CallAnswer:
        raw = _as_json(arguments, self.function.name)
        name = self.function.name
        calls = self._workspace.calls
        return calls.run(name, raw, token=token, key=key, wait=wait, on_waiting=on_waiting, loop=loop)


def governed(  # noqa: PLR0913 - what is declared, each by its name
    workspace: Workspace,
    name: str,
    *,
    consent: Consent = "person",
    risk: RiskLevel = "MEDIUM",
    read_only: bool = False,
    idempotent: bool = False,
    preview: Callable[..., str] | None = None,
    allow: Callable[..., Any] | None = None,
    before: Callable[..., Any] | None = None,
    undo: Callable[..., Any] | None = None,
    verify: Callable[..., Any] | None = None,
    private: Collection[str] = (),
) -> Callable[[Callable[P, R]], Governed[P, R]]:
    """Put a function behind the road under `name`: a token allows it as `call.NAME`.

    A person is asked about each call; with `consent="policy"`, only where `allow(**arguments)` says "ask" instead of
    "allow" or "refuse"; with "none", not at all, which is for what only reads or can be undone. `preview(**arguments)`
    makes the sentence that he reads. `before(**arguments)` returns what `undo(before, **arguments)` needs, which is
    called when the function fails or its process died; `verify(returned, **arguments)` must return True. `idempotent`:
    what was cut short may be called again. `private` names arguments that nobody is shown.
    """

    def decorate(function: Callable[P, R]) -> Governed[P, R]:
        declared = GovernedFunction(
            name=name,
            run=function,
            arguments=model_of(function, name),
            description=(inspect.getdoc(function) or "").partition("\n\n")[0].replace("\n", " "),
            consent=consent,
            risk=risk,
            read_only=read_only,
            idempotent=idempotent,
            preview=preview,
            allow=allow,
            before=before,
            undo=undo,
            verify=verify,
            private=tuple(private),
        )
        workspace.calls.registry.register(declared)
        return Governed(workspace, declared)

    return decorate


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _as_json(arguments: dict[str, Any], name: str) -> bytes:
    """Through bytes, as from anywhere else: so that the same limits hold."""
    try:
        return json.dumps(arguments, allow_nan=False, default=_tree).encode()
    except (TypeError, ValueError, RecursionError) as problem:
        raise RefusedError(
            Reason.MALFORMED,
            f"the arguments are not JSON ({type(problem).__name__})",
            where=f"arguments of {name}",
            next_step="Pass plain values: text, numbers, lists, dictionaries.",
        ) from None


def _tree(value: Any) -> Any:
    if isinstance(value, Contract):
        return value.tree()
    raise TypeError(type(value).__name__)
