"""The service for people. Every person can list them; an admin invites and removes them. Agents can do neither."""

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
        """Make an invitation link for a person. It is returned to the caller only, and not stored.

        For a user without a tenant, the tenant is chosen by `tenants.choose_tenant`.
        """
        require(caller, Right.INVITE)
        people = self._context.workspace.people
        tenant = tenant_of_user(self._context.workspace, user, tenant)
        return people.invite(name, role, actor=caller.actor, user=user, tenant=tenant, life=life)

    def remove(self, caller: Caller, name: str) -> str:
        """Remove a person, and return the id of that person."""
        require(caller, Right.INVITE)
        return self._context.workspace.people.remove(name, actor=caller.actor)
