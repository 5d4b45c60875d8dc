"""Records each preview that an agent asks for: who asked, for which plan, and what was shown. No content (PV-04).

The entries of one agent are bounded (`remit.ledger.counted_entries`). Beyond the rate they are counted.
"""

from typing import Any, Final

from remit.contracts.plans.plan import Plan
from remit.core.errors import mask_for_review
from remit.core.ids import DEFAULT_TENANT
from remit.identity.callers import AgentCaller
from remit.ledger.counted_entries import COUNTED_SUFFIX, CountedEntries
from remit.ledger.entry import NewEntry
from remit.services.plans.read_grants import Subjects
from remit.workspace.workspace import Workspace

PREVIEW_READ: Final = "plan.preview_read"
COUNTED_READS: Final = f"{PREVIEW_READ}{COUNTED_SUFFIX}"
OF_TEXT: Final = "preview"
"""The operation of a preview that is made of the plan's text alone."""
OF_PROPOSAL: Final = "proposal"
"""The operation of the preview of a stored proposal."""
MAX_NAMED: Final = 50
"""The most files that one entry names. It gives the number of the others."""


class PreviewReads:
    """Records the previews that agents of one workspace ask for."""

    def __init__(self, workspace: Workspace) -> None:
        self._counted = CountedEntries(lambda: workspace.ledger, COUNTED_READS)

    def record(
        self, caller: AgentCaller | None, plan: Plan, *, proposal_id: str | None = None, shown: Subjects | None = None
    ) -> None:
        """Record that an agent gets a preview. `shown` has what it reads of, beside its own text.

        `caller` is None for a command whose environment names an agent without a token. The entry is durable when this
        returns. An agent gets no preview that cannot be recorded.
        """
        digest = plan.digest()
        payload: dict[str, Any] = {
            "plan_id": mask_for_review(plan.plan_id),
            "plan_digest": digest,
            "proposal_id": proposal_id,
            "token_jti": None if caller is None else caller.token.jti,
            "shown": "own text" if shown is None else "stored preview",
        }
        if shown is not None:
            payload["paths"] = [mask_for_review(path)[:500] for path in shown.paths[:MAX_NAMED]]
            payload["paths_left_out"] = max(0, len(shown.paths) - MAX_NAMED)
            payload["connections"] = list(shown.connections[:MAX_NAMED])
        actor = None if caller is None else caller.actor
        single = NewEntry(DEFAULT_TENANT, PREVIEW_READ, proposal_id or digest, payload, actor=actor)
        self._counted.record(
            single,
            operation=OF_TEXT if proposal_id is None else OF_PROPOSAL,
            reason="own text" if shown is None else "read",
        )
