"""The agent of a plain call: the token comes from the `acting` block or from the governed call around it."""

import contextlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from remit.core.canonical import digest_bytes
from remit.core.errors import Reason, UsageError


@dataclass(frozen=True, slots=True)
class Acting:
    """The token, the key and the patience for plain calls in the current context."""

    token: str = field(repr=False)
    key: str | None
    wait: float | None
    parent_key: str | None = None
    """The key of the enclosing call. A call within it has a key made from this one, the same when it is repeated."""
    counts: dict[str, int] = field(default_factory=dict, compare=False)
    """How often each call was made within the enclosing call."""

    def key_of(self, name: str, arguments: Mapping[str, Any]) -> str | None:
        """Return the key of a call that is made now, or None if no key is set."""
        if self.parent_key is None:
            return self.key
        call = digest_bytes(json.dumps([self.parent_key, name, arguments], sort_keys=True, default=repr).encode())
        number = self.counts[call] = self.counts.get(call, 0) + 1
        return f"{self.parent_key[:_KEY_PREFIX]}/{digest_bytes(f'{call} {number}'.encode()).removeprefix('sha256:')}"


def is_nested_key(key: str, parent_keys: Collection[str]) -> bool:
    """Whether one of `parent_keys` is the key of a call within the call of `key`."""
    return any(re.fullmatch(f"{re.escape(key[:_KEY_PREFIX])}/[0-9a-f]{{64}}", each) for each in parent_keys)


_KEY_PREFIX: Final = 100
"""The number of characters of a key that the keys of the calls within it repeat."""
_ACTING: Final[ContextVar[Acting | None]] = ContextVar("remit_acting", default=None)


@contextlib.contextmanager
def acting(token: str, *, key: str | None = None, wait: float | None = 0.0) -> Iterator[None]:
    """Call governed functions for the agent of `token` in a `with` block.

    Args:
        token: The capability token of the agent.
        key: The id of the one call in the block, which happens once for this key. The id of the agent's own tool call
            is suitable. Without it each call has a new key. Calls within the call have keys made from it.
        wait: How many seconds a call waits for a person's decision before it raises. None waits without limit.

    Returns:
        A context manager.
    """
    before = _ACTING.set(Acting(token, key, wait))
    try:
        yield
    finally:
        _ACTING.reset(before)


@contextlib.contextmanager
def nested_calls(token: str, key: str, wait: float | None) -> Iterator[None]:
    """Make calls in this block as part of the call of `key`, for the same agent.

    If an `acting` block of the same token encloses it, the calls wait for people as long as that block says.
    """
    outer = _ACTING.get()
    patience = outer.wait if outer is not None and outer.token == token else wait
    before = _ACTING.set(Acting(token, None, patience, key))
    try:
        yield
    finally:
        _ACTING.reset(before)


def require_acting(name: str) -> Acting:
    found = _ACTING.get()
    if found is None:
        raise UsageError(
            Reason.MISUSE,
            "a governed function was called without an acting agent",
            where=f"function {name}",
            next_step="Call it within `with acting(token):`, or by `.call(token=..., key=..., ...)`.",
        )
    return found
