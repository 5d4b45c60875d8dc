"""The service for the catalogue. People see simulations, and admins promote and retire them. Agents can do neither."""

from collections.abc import Iterator

from remit.contracts.services.admin import (
    CatalogueView,
    SimulationLine,
    SimulationStepLine,
    SimulationView,
    StateSaid,
)
from remit.core.errors import Reason, RefusedError, RemitError
from remit.core.text import printable
from remit.goals.catalogue.catalogue import Catalogue, CatalogueEntry
from remit.identity.callers import AgentCaller, Caller
from remit.identity.person import Person
from remit.ledger.goal_queries import PromotedState
from remit.services.base.context import ServiceContext
from remit.services.base.permissions import Right, require


class CatalogueService:
    def __init__(self, context: ServiceContext) -> None:
        self._context = context

    def list_simulations(self, caller: Caller, tenant: str) -> CatalogueView:
        """List all simulations, with their state for the tenant."""
        require(caller, Right.SEE)
        promotion = self._context.workspace.promotion
        entries = promotion.catalogue(tenant)
        standing = promotion.status(tenant)
        return CatalogueView(
            tenant_id=tenant,
            catalogue_ref=entries.ref,
            simulations=tuple(make_line(entry, entries) for entry in entries),
            changed=standing.changed,
            gone=standing.missing,
        )

    def list_languages(self, caller: Caller, tenant: str) -> tuple[str, ...]:
        """List the language tags in which users can make requests there. Empty while the files are not valid."""
        require(caller, Right.SEE)
        try:
            entries = self._context.workspace.promotion.catalogue(tenant)
        except RemitError:
            return ()
        active = [entry.simulation for entry in entries if entry.state == "ACTIVE"]
        return tuple(sorted({tag for simulation in active for tag in simulation.phrases}))

    def show(self, caller: Caller, tenant: str, simulation_id: str) -> SimulationView:
        """Return one simulation with its whole definition, and the digest that `promote` takes."""
        require(caller, Right.SEE)
        promotion = self._context.workspace.promotion
        entries = promotion.catalogue(tenant)
        entry = entries.find(simulation_id)
        if entry is None:
            raise RefusedError(
                Reason.STATE_MISSING,
                "no file of the catalogue has such a simulation",
                where=f"simulation {simulation_id}",
                next_step="Check the id. The catalogue of the tenant lists all simulations.",
            )
        state = promotion.states(tenant).get(simulation_id)
        return SimulationView(
            tenant_id=tenant,
            line=make_line(entry, entries),
            said=make_state_view(state) if state is not None else None,
            simulation=entry.simulation.tree(),
        )

    def promote(
        self, caller: Caller, tenant: str, simulation_id: str, *, digest: str, reason: str | None = None
    ) -> SimulationView:
        """Make a simulation ACTIVE. The digest ensures that it is exactly the definition that the admin read."""
        who = _require_admin(caller)
        self._context.workspace.promotion.promote(
            simulation_id, tenant_id=tenant, who=who, reason=clean_reason(reason), digest=digest
        )
        return self.show(caller, tenant, simulation_id)

    def retire(self, caller: Caller, tenant: str, simulation_id: str, *, reason: str | None = None) -> StateSaid:
        """Retire a simulation at once, even if its file was changed or is gone."""
        who = _require_admin(caller)
        promotion = self._context.workspace.promotion
        return make_state_view(promotion.retire(simulation_id, tenant_id=tenant, who=who, reason=clean_reason(reason)))


def make_line(entry: CatalogueEntry, catalogue: Catalogue) -> SimulationLine:
    simulation = entry.simulation
    return SimulationLine(
        simulation_id=simulation.id,
        version=simulation.version,
        title=simulation.title_in("en")[:1_000],
        state=entry.state,
        impact=simulation.impact,
        risk=simulation.risk,
        access_action=simulation.access_action,
        rollback=simulation.rollback,
        definition_digest=entry.digest,
        steps=tuple(_steps(entry, catalogue)),
    )


def _steps(entry: CatalogueEntry, catalogue: Catalogue) -> Iterator[SimulationStepLine]:
    for step in catalogue.steps_of(entry):
        runs = catalogue.find(step.simulation)
        if runs is None:
            continue
        undo = catalogue.find(runs.simulation.rollback) if runs.simulation.rollback else None
        yield SimulationStepLine(
            step=step.step,
            simulation_id=step.simulation,
            definition_digest=step.simulation_digest,
            state=runs.state,
            rollback=undo.simulation.id if undo is not None else None,
            rollback_digest=undo.digest if undo is not None else None,
            rollback_state=undo.state if undo is not None else None,
        )


def _require_admin(caller: Caller) -> Person:
    require(caller, Right.CHANGE_CATALOGUE)
    if isinstance(caller, AgentCaller):  # a second check, so that not everything depends on the table of rights
        raise RefusedError(Reason.PERMISSION_DENIED, "only a person can change the catalogue", where="the caller")
    return caller.person


def make_state_view(state: PromotedState) -> StateSaid:
    return StateSaid(
        state=state.state,
        version=state.version,
        definition_digest=state.digest,
        by=state.actor,
        changed_at=state.changed_at,
    )


def clean_reason(text: str | None) -> str | None:
    return printable(text.strip()) or None if text else None
