"""The preview of a goal's action for people: computed once when the question is asked, and then read from the store."""

import logging
from typing import Final

from remit.contracts.services.goal_preview import GoalPreview
from remit.core.errors import RemitError
from remit.goals.questions import read_stored_preview
from remit.goals.service import Reply
from remit.identity.callers import AgentCaller, Caller
from remit.services.base.permissions import Right, has_right
from remit.workspace.workspace import Workspace

_LOG: Final = logging.getLogger("remit.goals")
_INTERNAL: Final = frozenset({"step_id", "preview_digest"})


def compute_preview(workspace: Workspace, reply: Reply) -> None:
    """Compute and store the preview of the question that a goal waits with. A failure leaves the question without one.

    Never call it before an agent has its answer: the time that it takes depends on files that the agent may not read.
    """
    if reply.outcome.reason_code != "CONFIRMATION_REQUIRED":
        return
    try:
        workspace.goals.preview_question(reply.goal.correlation_id, tenant=reply.goal.tenant_id)
    except RemitError as problem:
        _LOG.warning("the preview of a goal was not computed", extra={"why": str(problem)})


def read_preview(
    workspace: Workspace, caller: Caller, tenant: str, correlation_id: str, step_id: str
) -> GoalPreview | None:
    """Return the stored preview of a step, for a person who may read. None for agents, and if none is stored."""
    if isinstance(caller, AgentCaller) or not has_right(caller, Right.SEE):
        return None
    with workspace.store.reading_pooled() as connection:
        tree = read_stored_preview(connection, lambda: workspace.keyring, tenant, correlation_id, step_id)
    if tree is None:
        return None
    shown = {name: value for name, value in tree.items() if name not in _INTERNAL}
    return GoalPreview.from_tree(shown, source="a stored preview")
