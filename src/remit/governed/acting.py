"""In whose name a plain call is made: by the token that is set around it, and by nothing else."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

from remit.errors import Misuse, Reason


@dataclass(frozen=True, slots=True)
class Acting:
    token: str = field(repr=False)
    key: str | None
    wait: float | None


_ACTING: Final[ContextVar[Acting | None]] = ContextVar("remit_acting", default=None)


@contextlib.contextmanager
def acting(token: str, *, key: str | None = None, wait: float | None = 0.0) -> Iterator[None]:
    """Within this block governed functions are called for the agent of `token`.

    `key` is for one call, and makes it happen once: the id of the agent's tool call is a good one. Without it each call
    has a key of its own, and a second one is a second call. `wait` is how many seconds a person has for an answer
    before the call raises; None is as long as it takes.
    """
    before = _ACTING.set(Acting(token, key, wait))
    try:
        yield
    finally:
        _ACTING.reset(before)


def require_acting(name: str) -> Acting:
    found = _ACTING.get()
    if found is None:
        raise Misuse(
            Reason.MISUSE,
            "a governed function is called for somebody, and nobody was named",
            where=f"function {name}",
            next_step="Call it within `with acting(token):`, or by `.call(token=..., key=..., ...)`.",
        )
    return found
