"""Promotion of simulations: a person makes one available to a tenant, or retires it. The ledger records it.

This module is above the agent core in the import order. No module that a goal runs can import it, so no goal can
promote a simulation. A person promotes the definition as it is at that moment, by its digest.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final, Literal, NamedTuple

from remit.contracts.goals.simulation import Simulation, StatePayload
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.core.ids import tenant_flag
from remit.goals.catalogue.catalogue import Catalogue, CatalogueEntry, build_catalogue, entry_digest, refusal
from remit.goals.catalogue.files import CatalogueFinding
from remit.identity.person import Person, agent_cannot_decide
from remit.ledger.entry import NewEntry
from remit.ledger.goal_queries import CORRELATION, KIND, PromotedState, newest_state_seq, read_states
from remit.ledger.writer import Batch, Ledger
from remit.masking import mask_text

_TRIES: Final = 5
_MAX_REASON: Final = 500


class PromotionStatus(NamedTuple):
    """Ids of the simulations that people have promoted for a tenant, by whether they can still be used."""

    active: tuple[str, ...]
    changed: tuple[str, ...]
    """Their files have changed since, so they are drafts again."""
    missing: tuple[str, ...]
    """No file of the catalogue contains them any more."""


class PromotionService:
    """Reads the catalogue of each tenant of a workspace. Only this class changes the state of a simulation."""

    def __init__(
        self,
        definitions: Callable[[], tuple[Simulation, ...]],
        tenants: Callable[[], Collection[str]],
        ledger: Callable[[], Ledger],
        check: Callable[[Simulation], Sequence[CatalogueFinding]] = lambda _: (),
    ) -> None:
        """Initialise the service. `check` runs slow checks, which are made only when a person promotes a simulation."""
        self._definitions = definitions
        self._tenants = tenants
        self._ledger = ledger
        self._check = check

    def catalogue(self, tenant_id: str) -> Catalogue:
        """Return the simulations of a tenant with their present states.

        Args:
            tenant_id: The tenant.

        Returns:
            The catalogue.

        Raises:
            RefusedError: The tenant is unknown, or a file of the catalogue has a problem.
        """
        self._require_tenant(tenant_id)
        return build_catalogue(tenant_id, self._definitions(), self.states(tenant_id))

    def states(self, tenant_id: str) -> dict[str, PromotedState]:
        """Return the last recorded state of each simulation, also of those that no file contains any more."""
        ledger = self._ledger()
        with ledger.store.reading() as connection:
            return read_states(connection, ledger.keyring, tenant_id)

    def status(self, tenant_id: str) -> PromotionStatus:
        """Return which promoted simulations can still be used, and which cannot."""
        entries = self.catalogue(tenant_id)
        promoted = [name for name, state in sorted(self.states(tenant_id).items()) if state.state == "ACTIVE"]
        found = {name: entries.find(name) for name in promoted}
        return PromotionStatus(
            active=tuple(name for name, entry in found.items() if entry is not None and entry.state == "ACTIVE"),
            changed=tuple(name for name, entry in found.items() if entry is not None and entry.state != "ACTIVE"),
            missing=tuple(name for name, entry in found.items() if entry is None),
        )

    def promote(
        self,
        simulation_id: str,
        *,
        tenant_id: str,
        who: Person,
        reason: str | None = None,
        digest: str | None = None,
    ) -> CatalogueEntry:
        """Make a simulation ACTIVE for a tenant, as it is now.

        This covers the steps of a composite one as they are now. Each step is a simulation that is promoted itself too.

        Args:
            simulation_id: The id of the simulation, a draft or a retired one.
            tenant_id: The tenant.
            who: The person. An agent cannot promote.
            reason: The person's reason, for the ledger.
            digest: The digest of the simulation that the person has read. Another one is refused.

        Returns:
            The simulation with its new state.

        Raises:
            RefusedError: There is no such simulation, it is ACTIVE already, it differs from `digest`, the caller is
                not a person, or `remit catalogue check` finds a problem in a file of the catalogue or in its queries.
        """
        self._require_person_and_tenant(who, tenant_id)
        known = {each.id: each for each in self._definitions()}
        found = known.get(simulation_id)
        if found is None:
            raise self._refused(
                Reason.SIMULATION_UNKNOWN, "no file of the catalogue has such a simulation", simulation_id, tenant_id
            )
        current = entry_digest(found, known)
        if digest is not None and digest != current:
            raise self._refused(
                Reason.BINDING_MISMATCH,
                "the simulation is not the one that you read: its file has changed since",
                simulation_id,
                tenant_id,
                f"Read it again: remit catalogue show {simulation_id}",
            )
        if findings := self._check(found):
            raise refusal(findings)

        def decide(states: dict[str, PromotedState]) -> StatePayload:
            before = states.get(simulation_id)
            if before is not None and before.digest == current and before.state == "ACTIVE":
                what = "the current version of this simulation is ACTIVE already"
                raise self._refused(Reason.TRANSITION_INVALID, what, simulation_id, tenant_id)
            return _payload(simulation_id, found.version, current, "ACTIVE", reason)

        self._change(tenant_id, who, decide)
        return CatalogueEntry(found, current, "ACTIVE")

    def retire(self, simulation_id: str, *, tenant_id: str, who: Person, reason: str | None = None) -> PromotedState:
        """Stop a simulation immediately. This works also if its file was changed or removed.

        Args:
            simulation_id: The id of the simulation.
            tenant_id: The tenant.
            who: The person. An agent cannot retire.
            reason: The person's reason, for the ledger.

        Returns:
            The new state.

        Raises:
            RefusedError: The simulation is not ACTIVE, or the caller is not a person.
        """
        self._require_person_and_tenant(who, tenant_id)

        def decide(states: dict[str, PromotedState]) -> StatePayload:
            known = states.get(simulation_id)
            if known is None or known.state != "ACTIVE":
                state = "it is RETIRED already" if known else "it was never promoted"
                what = f"only an ACTIVE simulation can be retired: {state}"
                raise self._refused(Reason.TRANSITION_INVALID, what, simulation_id, tenant_id)
            return _payload(simulation_id, known.version, known.digest, "RETIRED", reason)

        self._change(tenant_id, who, decide)
        return self.states(tenant_id)[simulation_id]

    def _change(self, tenant_id: str, who: Person, decide: Callable[[dict[str, PromotedState]], StatePayload]) -> None:
        """Decide from the signed states, and record the result only if no state has been recorded since."""
        ledger = self._ledger()
        for _ in range(_TRIES):
            with ledger.store.reading() as connection:
                newest = newest_state_seq(connection, tenant_id)
                payload = decide(read_states(connection, ledger.keyring, tenant_id))
            event = NewEntry(tenant_id, KIND, CORRELATION, payload.tree(), actor=who.actor)

            def work(batch: Batch, newest: int = newest, event: NewEntry = event) -> bool:
                who.require_still_valid(batch.time_in(tenant_id))
                if newest_state_seq(batch.store, tenant_id) != newest:
                    return False
                batch.append(event)
                return True

            if ledger.transact(work):
                return
        raise EnvironmentFailureError(
            Reason.IN_PROGRESS,
            "other callers keep changing the states of this tenant's simulations",
            where=f"tenant {tenant_id}",
            next_step="Try again.",
        )

    def _require_person_and_tenant(self, who: Person, tenant_id: str) -> None:
        if not isinstance(who, Person):
            raise agent_cannot_decide("only an authenticated person can promote or retire a simulation")
        self._require_tenant(tenant_id)

    def _require_tenant(self, tenant_id: str) -> None:
        if tenant_id not in self._tenants():
            raise RefusedError(
                Reason.MALFORMED,
                "there is no such tenant",
                where=f"tenant {tenant_id}",
                next_step="Name it, and its users, under `tenants` in remit.yaml.",
            )

    def _refused(
        self, reason: Reason, what: str, simulation_id: str, tenant_id: str, next_step: str = ""
    ) -> RefusedError:
        """Build a refusal. Its next step ends with a command for this tenant."""
        command = (next_step or "See: remit catalogue list") + tenant_flag(tenant_id, self._tenants())
        return RefusedError(reason, what, where=f"simulation {simulation_id}", next_step=command)


def _payload(
    simulation_id: str, version: str, digest: str, state: Literal["ACTIVE", "RETIRED"], reason: str | None
) -> StatePayload:
    masked_reason = mask_text(reason)[:_MAX_REASON] if reason else None
    tree = {
        "simulation_id": simulation_id,
        "version": version,
        "digest": digest,
        "state": state,
        "reason": masked_reason,
    }
    return StatePayload.from_tree(tree, source="the state of a simulation")
