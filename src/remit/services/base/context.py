"""The context of all services: the workspace, the running jobs, the stream of events, and links to the console."""

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
"""The address of the console. A function is called for each link, because another process may serve the console."""


@dataclass(frozen=True)
class ServiceContext:
    workspace: Workspace
    jobs: JobRunner
    events: Events
    console_url: ConsoleUrl = None

    def link(self, *path: str) -> str | None:
        """Return the address of a page in the console, or None if there is no console."""
        return link_to(self.console_url, *path)

    def find_claim(self, scope: str, key: str, tenant: str = DEFAULT_TENANT) -> ClaimCompleted | ClaimHeld | None:
        """Find the claim of an id. The claim of a dead process is recovered first, for at most ten seconds."""
        claimed = self._claim(scope, key, tenant)
        if isinstance(claimed, ClaimHeld) and is_orphan(claimed, self.workspace.store.dialect):
            self.start_recovery().wait(RECOVERY_SECONDS)
            claimed = self._claim(scope, key, tenant)
        return claimed

    def read_outcome(self, done: ClaimCompleted) -> str:
        """Return the text of a stored outcome, verified against the digest in the ledger."""
        key = done.key
        trace = RequestIds(key.tenant_id, done.correlation_id, key.scope, key.key, done.request_digest)
        return Journal(self.workspace.ledger, trace, self.workspace.state.hosts, 0).verify_stored(done).text

    def start_recovery(self) -> Job[int]:
        """Start the recovery of interrupted requests. The result of the job is the number of recovered requests."""

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
            f"the wait is not between 0 and {MAX_WAIT:g} seconds",
            where="wait",
            next_step=f"Give 0 to {MAX_WAIT:g}, and ask again later by the id.",
        )
    return wait


LinkTo = Callable[..., str | None]
__all__ = ["MAX_WAIT", "Caller", "LinkTo", "ServiceContext", "require_wait"]
