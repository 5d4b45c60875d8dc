"""People at the desk: every person sees who there is; an admin invites and removes; no agent does either."""

from datetime import timedelta

from remit.identity.callers import Caller
from remit.identity.models import Invitation, Listed, Role
from remit.identity.people import LINK_LIFE
from remit.services.base.context import ServiceContext
from remit.services.base.permissions import Right, require
from remit.services.base.tenants import tenant_of_user


class PeopleService:
    def __init__(self, context: ServiceContext) -> None:
        self._context = context

    def list_people(self, caller: Caller) -> list[Listed]:
        require(caller, Right.SEE)
        return self._context.workspace.people.listed()

    def invite(
        self,
        caller: Caller,
        name: str,
        role: Role,
        *,
        user: str | None = None,
        tenant: str | None = None,
        life: timedelta = LINK_LIFE,
    ) -> Invitation:
        """A link for somebody; told to whoever asked, and kept nowhere. A user without a tenant is of the only one."""
        require(caller, Right.INVITE)
        people = self._context.workspace.people
        tenant = tenant_of_user(self._context.workspace, user, tenant)
        return people.invite(name, role, actor=caller.actor, user=user, tenant=tenant, life=life)

    def remove(self, caller: Caller, name: str) -> str:
        """The id of whom it was."""
        require(caller, Right.INVITE)
        return self._context.workspace.people.remove(name, actor=caller.actor)
