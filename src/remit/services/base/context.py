"""What every part of the desk works with: the workspace, the work under way, the stream of events, and links."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from remit.core.errors import Reason, RefusedError
from remit.core.ids import DEFAULT_TENANT
from remit.execution.journal import Journal, RequestIds, is_orphan
from remit.identity.callers import Caller
from remit.services.base.events import Events
from remit.services.base.jobs import Job, JobRunner
from remit.services.base.ownership import is_name
from remit.store.claims import ClaimCompleted, ClaimHeld, ClaimKey, read_claim
from remit.workspace.workspace import Workspace

MAX_WAIT: Final = 30.0
RECOVERY_SECONDS: Final = 10.0

ConsoleUrl = str | Callable[[], str | None] | None
"""Where people find the console; asked for at each link, where it is served by another process."""


@dataclass(frozen=True)
class ServiceContext:
    workspace: Workspace
    jobs: JobRunner
    events: Events
    console_url: ConsoleUrl = None

    def link(self, *path: str) -> str | None:
        """Where a person finds it in the console, if there is one."""
        return link_to(self.console_url, *path)

    def find_claim(self, scope: str, key: str, tenant: str = DEFAULT_TENANT) -> ClaimCompleted | ClaimHeld | None:
        """What stands under an id. What a process that died has begun is settled first, as far as that takes."""
        claimed = self._claim(scope, key, tenant)
        if isinstance(claimed, ClaimHeld) and is_orphan(claimed, self.workspace.store.dialect):
            self.start_recovery().wait(RECOVERY_SECONDS)
            claimed = self._claim(scope, key, tenant)
        return claimed

    def read_outcome(self, done: ClaimCompleted) -> str:
        """The text of an outcome, believed because the ledger carries its digest."""
        key = done.key
        trace = RequestIds(key.tenant_id, done.correlation_id, key.scope, key.key, done.request_digest)
        return Journal(self.workspace.ledger, trace, self.workspace.state.hosts, 0).verify_stored(done).text

    def start_recovery(self) -> Job[int]:
        """Finish or clear away what processes that died had begun; how many things that were."""

        def recover(_job: Job[int]) -> int:
            return len(self.workspace.recover())

        return self.jobs.start("recover", recover, subject="recover", owner="remit")

    def _claim(self, scope: str, key: str, tenant: str) -> ClaimCompleted | ClaimHeld | None:
        if not is_name(tenant, key):
            return None
        with self.workspace.store.reading_pooled() as connection:
            return read_claim(connection, ClaimKey(tenant, scope, key))


def link_to(console: ConsoleUrl, *path: str) -> str | None:
    url = console() if callable(console) else console
    return "/".join((url.rstrip("/"), *(quote(part, safe="") for part in path))) if url else None


def require_wait(wait: float) -> float:
    if not 0 <= wait <= MAX_WAIT:
        raise RefusedError(
            Reason.MALFORMED,
            f"nobody waits longer than {MAX_WAIT:g} seconds here",
            where="wait",
            next_step=f"Give 0 to {MAX_WAIT:g}, and look again by the id of the thing.",
        )
    return wait


LinkTo = Callable[..., str | None]
__all__ = ["MAX_WAIT", "Caller", "LinkTo", "ServiceContext", "require_wait"]
