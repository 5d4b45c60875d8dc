"""Ownership of goals: an agent sees and continues only the goals that it requested for the user of its token."""

from remit.core.errors import Reason, RefusedError
from remit.goals.status import GoalStatus, read_goal_status
from remit.identity.callers import AgentCaller, Caller
from remit.services.base.ownership import GOAL_REQUESTED, find_requester, not_found_error, require_owner
from remit.services.goals.answers import User
from remit.services.goals.approvals import require_goal_capacity
from remit.workspace.workspace import Workspace


class OwnedGoals:
    """Checks the ownership of the goals of one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def require_new(self, caller: Caller, tenant: str, correlation_id: str, under_way: int = 0) -> None:
        """Refuse an id that is not free for the caller, or one more goal if an agent has too many.

        `under_way` is the number of the caller's goals that are in progress and not recorded yet.
        """
        self.require_free(caller, tenant, correlation_id)
        if isinstance(caller, AgentCaller) and self._read_status(tenant, correlation_id) is None:
            require_goal_capacity(self._workspace, tenant, caller.id, under_way)

    def require_free(self, caller: Caller, tenant: str, correlation_id: str) -> None:
        """Refuse an id of another caller's goal to an agent. Otherwise the agent would get the outcome of that goal."""
        if not isinstance(caller, AgentCaller) or self._read_status(tenant, correlation_id) is None:
            return
        with self._workspace.store.reading_pooled() as connection:
            requester = find_requester(connection, tenant, correlation_id, GOAL_REQUESTED)
        if requester != caller.id:
            raise RefusedError(
                Reason.GOAL_CONFLICT,
                "this correlation id belongs to another goal",
                where=f"correlation {correlation_id}",
                next_step="Omit the id, and Remit makes a new one.",
            )

    def require(self, caller: Caller, user: User, correlation_id: str) -> GoalStatus:
        """Return the status of a goal of this user. For an agent, it must be a goal that the agent requested."""
        now = self._read_status(user.tenant, correlation_id)
        if now is None or now.user_id != user.user:
            raise not_found_error("goal", correlation_id)
        self.require_visible(caller, user.tenant, correlation_id)
        return now

    def require_visible(self, caller: Caller, tenant: str, correlation_id: str) -> None:
        if not isinstance(caller, AgentCaller):
            return
        missing = not_found_error("goal", correlation_id)
        now = self._read_status(tenant, correlation_id) if is_tenant_of(caller, tenant) else None
        if now is None or now.user_id != caller.token.constraints.user:
            raise missing
        with self._workspace.store.reading_pooled() as connection:
            require_owner(caller, find_requester(connection, tenant, correlation_id, GOAL_REQUESTED), missing)

    def _read_status(self, tenant: str, correlation_id: str) -> GoalStatus | None:
        with self._workspace.store.reading() as connection:
            return read_goal_status(connection, lambda: self._workspace.keyring, tenant, correlation_id)


def is_tenant_of(caller: Caller, tenant: str) -> bool:
    """Return whether a caller may access goals of a tenant. An agent may access only the tenant of its token."""
    return not isinstance(caller, AgentCaller) or tenant == caller.token.constraints.tenant
