"""In whose name a plain call is made: by the token that is set around it, or that the call around it was made with, and
by nothing else.
"""

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
    token: str = field(repr=False)
    key: str | None
    wait: float | None
    parent_key: str | None = None
    """The key of the call that is being made. A call within it has a key of its own, the same when it is repeated."""
    counts: dict[str, int] = field(default_factory=dict, compare=False)
    """How often the same call was made within it."""

    def key_of(self, name: str, arguments: Mapping[str, Any]) -> str | None:
        """Of a call that is made now. None where nothing says which it is."""
        if self.parent_key is None:
            return self.key
        call = digest_bytes(json.dumps([self.parent_key, name, arguments], sort_keys=True, default=repr).encode())
        number = self.counts[call] = self.counts.get(call, 0) + 1
        return f"{self.parent_key[:_KEY_PREFIX]}/{digest_bytes(f'{call} {number}'.encode()).removeprefix('sha256:')}"


def is_nested_key(key: str, parent_keys: Collection[str]) -> bool:
    """Whether one of these keys is of a call within the call of this key."""
    return any(re.fullmatch(f"{re.escape(key[:_KEY_PREFIX])}/[0-9a-f]{{64}}", each) for each in parent_keys)


_KEY_PREFIX: Final = 100
"""Characters of a key that are repeated in those of the calls within."""
_ACTING: Final[ContextVar[Acting | None]] = ContextVar("remit_acting", default=None)


@contextlib.contextmanager
def acting(token: str, *, key: str | None = None, wait: float | None = 0.0) -> Iterator[None]:
    """Within this block governed functions are called for the agent of `token`.

    `key` is for one call, and makes it happen once: the id of the agent's tool call is a good one. Without it each call
    has a key of its own, and a second one is a second call. Calls that this call makes itself have keys made from it.
    `wait` is how many seconds a person has for an answer before the call raises; None is as long as it takes.
    """
    before = _ACTING.set(Acting(token, key, wait))
    try:
        yield
    finally:
        _ACTING.reset(before)


@contextlib.contextmanager
def nested_calls(token: str, key: str, wait: float | None) -> Iterator[None]:
    """What is called in this block is called by the call of this key, for the same agent: the call names it.

    Where a block names him too, its patience with people is that of the calls within.
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
            "a governed function is called for somebody, and nobody was named",
            where=f"function {name}",
            next_step="Call it within `with acting(token):`, or by `.call(token=..., key=..., ...)`.",
        )
    return found
