"""The decorator `governed`, the object that replaces a decorated function, and `value_of`."""

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
    """Return the value of a call that succeeded.

    Raises `RefusedError` if the call waits or had no effect, and `EnvironmentFailureError` for any other failure.
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
    """A governed function. It can be called only for an agent.

    `.call` returns the whole answer. A plain call returns the value or raises.
    """

    def __init__(self, workspace: Workspace, function: GovernedFunction) -> None:
        self._workspace = workspace
        self.function = function
        self._signature = inspect.signature(function.run)
        functools.update_wrapper(self, function.run)

    def call(self, *, token: str, key: str, wait: float | None = 0.0, **arguments: Any) -> CallAnswer:
        """Call the function for the agent of a token, once for each key. The same call again returns the same result.

        Args:
            token: The capability token of the agent.
            key: The id of the call. The id of the agent's own tool call is suitable.
            wait: How many seconds to wait for a person's decision. None waits without limit.
            **arguments: The arguments of the function, by name.

        Returns:
            The answer: `done` with the signed result, or `waiting` for a person. Then the same call continues it.

        Raises:
            RefusedError: The arguments do not fit the function.
            UsageError: An async function is called in a running event loop. Await `acall` there.
            EnvironmentFailureError: Neither success nor failure could be recorded.
        """
        if self.function.is_async and _is_in_loop():
            raise UsageError(
                Reason.MISUSE,
                "an async function was called with .call in a running event loop",
                where=f"function {self.function.name}",
                next_step="await .acall(token=..., key=..., ...)",
            )
        return self._run(token, key, wait, arguments)

    async def acall(self, *, token: str, key: str, wait: float | None = 0.0, **arguments: Any) -> CallAnswer:
        """Make the same call as `call`, awaited. It continues even if its caller stops awaiting it.

        Waiting for a person takes no thread.

        Args:
            token: The capability token of the agent.
            key: The id of the call. The id of the agent's own tool call is suitable.
            wait: How many seconds to wait for a person's decision. None waits without limit.
            **arguments: The arguments of the function, by name.

        Returns:
            The answer, as of `call`.
        """
        loop = asyncio.get_running_loop()
        patience = self._workspace.calls.patience
        with acting(token, wait=wait):  # calls within it wait for people as long as it does
            return await patience.call_when_approved(lambda: self._run(token, key, 0.0, arguments, loop), wait)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Make a plain call within `with acting(token):`. Returns the function's value, or raises as `value_of`."""
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
    """Govern a Python function: an agent calls it under the engine's steps, once for each key.

    A token allows the function with the capability `call.NAME`. Companion functions get the arguments by name.

    Args:
        workspace: The workspace whose tokens, approvals and ledger are used.
        name: The name of the function, such as `crm.set_discount`.
        consent: `person` asks a person about each call. `policy` asks only if `allow` returns `ask`. `none` asks about
            no call, and needs `read_only` or `undo`.
        risk: The risk level that the approver sees.
        read_only: The function changes nothing.
        idempotent: A repeated call changes nothing more, so an interrupted call may be made again.
        preview: Returns the sentence that the approver reads.
        allow: Returns `allow`, `ask` or `refuse`; True and False mean allow and refuse.
        before: Returns the data that `undo` needs, as JSON.
        undo: Called with the result of `before` and the arguments, if the function fails or its process dies.
        verify: Called with the returned value and the arguments. Must return True.
        private: Names of arguments that are hidden in every preview, record and message.

    Returns:
        The decorator. It replaces the function by an object with `call`, `acall` and a plain call.

    Raises:
        UsageError: The declaration or the signature is not valid, or the name is taken.
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
    """Render the arguments as bytes, so that the same limits apply as for every other caller."""
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
