"""The header Idempotency-Key: the same key with another body is refused, and an object without an own id is made once.

Tasks, actions, proposals and goals have ids in the ledger, which guarantee that they happen once. Limit: keys are
remembered in memory, for an hour.
"""

import hashlib
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from remit.core.canonical import canonical_bytes, digest_bytes
from remit.core.errors import Reason, RefusedError

MOST: Final = 2_000
SECONDS: Final = 3_600.0


@dataclass(slots=True)
class _KeyUse:
    digest: str
    used_at: float
    answer: Response | None = None
    is_disclosed: bool = False
    """Whether the answer was sent and is a secret, which is not stored."""


class IdempotencyKeys:
    """The keys that callers used recently. Safe to use from any thread."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._uses: OrderedDict[tuple[str, str, str], _KeyUse] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._uses)

    def require_same(self, caller_id: str, what: str, key: str, body: bytes) -> None:
        """Refuse a key that this caller used before with another body, for the same operation."""
        with self._lock:
            self._find_or_add(caller_id, what, key, body)

    def run_once(
        self, caller_id: str, what: str, key: str, body: bytes, make: Callable[[], Response], *, is_secret: bool = False
    ) -> Response:
        """Return the answer of `make`. A repetition gets the first answer. After a failure the caller may try again.

        A secret answer is sent the first time only.
        """
        with self._lock:
            use, is_new = self._find_or_add(caller_id, what, key, body)
            if not is_new:
                if use.is_disclosed:
                    raise _disclosed_before_error()
                if use.answer is None:
                    raise RefusedError(
                        Reason.IN_PROGRESS,
                        "a request with this key is running",
                        where="header Idempotency-Key",
                        next_step="Wait for its answer, or send the request again later.",
                    )
                return use.answer
        try:
            answer = make()
        except BaseException:
            with self._lock:
                self._uses.pop((caller_id, what, key), None)
            raise
        if is_secret:
            use.is_disclosed = True
        else:
            use.answer = answer
        return answer

    def _find_or_add(self, caller_id: str, what: str, key: str, body: bytes) -> tuple[_KeyUse, bool]:
        now, digest, name = self._now(), digest_bytes(body), (caller_id, what, key)
        self._remove_old(now)
        found = self._uses.get(name)
        if found is None:
            self._uses[name] = found = _KeyUse(digest, now)
            return found, True
        if found.digest != digest:
            raise RefusedError(
                Reason.IDEMPOTENCY_CONFLICT,
                "this key was used before with another body",
                where="header Idempotency-Key",
                next_step="Use a new key for a new request.",
            )
        return found, False

    def _remove_old(self, now: float) -> None:
        while self._uses:
            name, oldest = next(iter(self._uses.items()))
            if len(self._uses) < MOST and now - oldest.used_at < SECONDS:
                return
            del self._uses[name]


def _disclosed_before_error() -> RefusedError:
    return RefusedError(
        Reason.IDEMPOTENCY_CONFLICT,
        "a request with this key was already carried out, and its secret was sent only once",
        where="header Idempotency-Key",
        next_step="If the answer was lost, revoke what the request created, and send the request with a new key.",
    )


def derive_id(caller_id: str, key: str) -> str:
    """Return the id for a request of this caller with this key: a UUID that is the same each time."""
    found = hashlib.sha256(canonical_bytes(["remit idempotency key", caller_id, key])).digest()
    return str(uuid.UUID(bytes=found[:16], version=5))
