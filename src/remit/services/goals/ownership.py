"""Which goals are whose: an agent goes on with, and sees, those that it asked for itself, for its token's user."""

from remit.core.errors import Reason, RefusedError
from remit.goals.status import GoalStatus, read_goal_status
from remit.identity.callers import AgentCaller, Caller
from remit.services.base.ownership import GOAL_REQUESTED, find_requester, not_found_error, require_owner
from remit.services.goals.answers import User
from remit.services.goals.approvals import require_goal_capacity
from remit.workspace.workspace import Workspace


class OwnedGoals:
    """Of one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def require_new(self, caller: Caller, tenant: str, correlation_id: str, under_way: int = 0) -> None:
        """That this id is free for the caller, and that he may have one more; `under_way`: not recorded yet."""
        self.require_free(caller, tenant, correlation_id)
        if isinstance(caller, AgentCaller) and self._read_status(tenant, correlation_id) is None:
            require_goal_capacity(self._workspace, tenant, caller.id, under_way)

    def require_free(self, caller: Caller, tenant: str, correlation_id: str) -> None:
        """To an agent, an id that stands for a goal must stand for its own: else it would be told what came of it."""
        if not isinstance(caller, AgentCaller) or self._read_status(tenant, correlation_id) is None:
            return
        with self._workspace.store.reading_pooled() as connection:
            requester = find_requester(connection, tenant, correlation_id, GOAL_REQUESTED)
        if requester != caller.id:
            raise RefusedError(
                Reason.GOAL_CONFLICT,
                "this correlation id stands for another goal",
                where=f"correlation {correlation_id}",
                next_step="Leave it away, and one is made.",
            )

    def require(self, caller: Caller, user: User, correlation_id: str) -> GoalStatus:
        """Of the same user; and to an agent, one that it asked for itself."""
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
    """An agent has nothing to look for with other tenants than its token's."""
    return not isinstance(caller, AgentCaller) or tenant == caller.token.constraints.tenant
