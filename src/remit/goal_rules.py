"""The rules of the goal door as they are now: files of the workspace, and what the ledger says people have promoted.

Read anew for every decision; what the same bytes were made into before is not made again.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from remit.agent.catalogue import Catalogue, build_catalogue, load_definitions
from remit.agent.decisions import snapshot_documents
from remit.agent.kept import Kept
from remit.agent.sources import Rules
from remit.approval.confirmation import load_lexicon
from remit.authority.signing import Keyring
from remit.canonical import digest
from remit.contracts.config import SystemConfig
from remit.contracts.simulation import Simulation
from remit.doors.policy_files import read_policy_files
from remit.errors import Reason, Refused, RemitError
from remit.ledger.append import Ledger
from remit.ledger.documents import Document
from remit.ledger.simulation_states import PromotedState, newest_state_seq, read_states
from remit.policy.access import AccessPolicy, build_access_policy

_SECONDS: Final = 600.0


class WorkspaceRules:
    """`LiveRules` of one workspace."""

    def __init__(
        self,
        root: Path,
        config: Callable[[], SystemConfig],
        ledger: Callable[[], Ledger],
        keyring: Callable[[], Keyring],
    ) -> None:
        self._folder = root
        self._config = config
        self._ledger = ledger
        self._keyring = keyring
        self._states: Kept[tuple[str, int], dict[str, PromotedState]] = Kept(64, _SECONDS)
        self._policies: Kept[str, AccessPolicy] = Kept(16, _SECONDS)
        self._documents: Kept[tuple[str, str, str], tuple[Document, ...]] = Kept(64, _SECONDS)

    def _root(self, config: SystemConfig) -> Path:
        return (self._folder / config.root).resolve()

    def knows(self, tenant_id: str) -> bool:
        return tenant_id in self._config().tenants

    def __call__(self, tenant_id: str) -> Rules:
        config = self._config()
        if tenant_id not in config.tenants:
            raise Refused(
                Reason.ACCESS_DENIED,
                "there is no such tenant",
                where=f"tenant {tenant_id}",
                next_step="Name it, and its users, under `tenants` in remit.yaml.",
            )
        root = self._root(config)
        definitions = self._definitions(config, root)  # once: the catalogue and the policy are about the same actions
        catalogue, policy = self._catalogue(tenant_id, definitions), self._policy(config, root, definitions)
        lexicon = load_lexicon()
        key = (catalogue.ref, policy.ref, lexicon.ref)
        documents = self._documents.get(key, lambda: snapshot_documents(catalogue, policy, lexicon))
        return Rules(catalogue, policy, lexicon, documents)

    def catalogue(self, tenant_id: str) -> Catalogue:
        config = self._config()
        return self._catalogue(tenant_id, load_definitions(self._root(config), config))

    def _definitions(self, config: SystemConfig, root: Path) -> tuple[Simulation, ...]:
        """Files that cannot be read register nothing. What is wrong with them is no fault of what a user asked for."""
        try:
            return load_definitions(root, config)
        except RemitError as problem:
            raise Refused(
                Reason.SIMULATION_UNKNOWN,
                f"the catalogue cannot be read: {problem.what}",
                where=problem.where or "goals.catalogue",
                next_step=problem.next_step or "See: remit catalogue check",
            ) from problem

    def _catalogue(self, tenant_id: str, definitions: Sequence[Simulation]) -> Catalogue:
        with self._ledger().store.glancing() as connection:
            newest = newest_state_seq(connection, tenant_id)
            states = self._states.get((tenant_id, newest), lambda: read_states(connection, self._keyring, tenant_id))
        return build_catalogue(tenant_id, definitions, states)

    def _policy(self, config: SystemConfig, root: Path, definitions: Sequence[Simulation]) -> AccessPolicy:
        """One that cannot be read or does not validate denies: nobody gets in because a file is broken."""
        try:
            files = read_policy_files(root, config.policies.cedar_files)
            tenants = {name: tenant.users for name, tenant in config.tenants.items()}
            actions = sorted({each.access_action for each in definitions})
            key = digest([files, {name: list(users) for name, users in tenants.items()}, actions])
            return self._policies.get(key, lambda: build_access_policy(files, tenants, actions))
        except RemitError as problem:
            raise Refused(
                Reason.ACCESS_DENIED,
                f"the access policies cannot be asked: {problem.what}",
                where=problem.where or "policies.cedar_files",
                next_step=problem.next_step or "Mend the policy file.",
            ) from problem
