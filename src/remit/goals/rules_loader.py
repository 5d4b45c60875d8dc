"""The current rules of goals, from the files of the workspace and the promotions in the ledger.

The files are checked for every decision. The result for unchanged bytes is reused.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from remit.contracts.config.config import SystemConfig
from remit.contracts.goals.simulation import Simulation
from remit.core.canonical import digest
from remit.core.errors import Reason, RefusedError, RemitError
from remit.core.ttl_cache import TTLCache
from remit.crypto.signing import Keyring
from remit.goals.access.policy import AccessPolicy, build_access_policy
from remit.goals.access.policy_files import read_policy_files
from remit.goals.binding.file_cache import FileCache
from remit.goals.catalogue.catalogue import Catalogue, build_catalogue, load_definitions
from remit.goals.confirmation.parser import load_lexicon
from remit.goals.decisions import snapshot_documents
from remit.goals.rules import Rules
from remit.ledger.goal_queries import PromotedState, newest_state_seq, read_states
from remit.store.connection import Connection

_SECONDS: Final = 600.0


class _RulesInputs(NamedTuple):
    """All inputs of the rules of a tenant."""

    config: SystemConfig
    definitions: tuple[Simulation, ...]
    states: Mapping[str, PromotedState]
    policies: Mapping[str, str]

    def is_unchanged(self, before: "_RulesInputs") -> bool:
        """Compare the first three by identity: each is the same object as long as its source is unchanged."""
        is_same = all(now is then for now, then in zip(self[:3], before[:3], strict=True))
        return is_same and self.policies == before.policies


class WorkspaceRules:
    """`LiveRules` of one workspace."""

    def __init__(self, root: Path, config: Callable[[], SystemConfig], keyring: Callable[[], Keyring]) -> None:
        self._folder = root
        self._config = config
        self._keyring = keyring
        self._files = FileCache()
        self._states: TTLCache[tuple[str, int], dict[str, PromotedState]] = TTLCache(64, _SECONDS)
        self._policies: TTLCache[str, AccessPolicy] = TTLCache(16, _SECONDS)
        self._built: dict[str, tuple[_RulesInputs, Rules]] = {}

    def is_tenant(self, tenant_id: str) -> bool:
        return tenant_id in self._config().tenants

    def __call__(self, tenant_id: str, connection: Connection) -> Rules:
        config = self._config()
        if tenant_id not in config.tenants:
            raise RefusedError(
                Reason.ACCESS_DENIED,
                "there is no such tenant",
                where=f"tenant {tenant_id}",
                next_step="Name it, and its users, under `tenants` in remit.yaml.",
            )
        root = self._root(config)
        # Read once, because the catalogue and the policy use the same actions.
        definitions = self._definitions(config, root)
        states = self._promoted(tenant_id, connection)
        inputs = _RulesInputs(config, definitions, states, self._policy_files(config, root))
        before = self._built.get(tenant_id)
        if before is not None and inputs.is_unchanged(before[0]):
            return before[1]
        rules = self._build(tenant_id, inputs)
        self._built[tenant_id] = inputs, rules
        return rules

    def catalogue(self, tenant_id: str, connection: Connection) -> Catalogue:
        config = self._config()
        definitions = load_definitions(self._root(config), config)
        return build_catalogue(tenant_id, definitions, self._promoted(tenant_id, connection))

    def _root(self, config: SystemConfig) -> Path:
        """Resolve the root each time: it may be a link that an operator moves to the next version."""
        return (self._folder / config.root).resolve()

    def _build(self, tenant_id: str, inputs: _RulesInputs) -> Rules:
        catalogue = build_catalogue(tenant_id, inputs.definitions, inputs.states)
        policy, lexicon = self._policy(inputs), load_lexicon()
        return Rules(catalogue, policy, lexicon, snapshot_documents(catalogue, policy, lexicon))

    def _definitions(self, config: SystemConfig, root: Path) -> tuple[Simulation, ...]:
        """Load the simulations. The refusal has a reason that blames the files, and not the request of the user."""
        try:
            return load_definitions(root, config)
        except RemitError as problem:
            raise RefusedError(
                Reason.SIMULATION_UNKNOWN,
                f"the catalogue cannot be read: {problem.what}",
                where=problem.where or "goals.catalogue",
                next_step=problem.next_step or "See: remit catalogue check",
            ) from problem

    def _promoted(self, tenant_id: str, connection: Connection) -> Mapping[str, PromotedState]:
        newest = newest_state_seq(connection, tenant_id)
        return self._states.get((tenant_id, newest), lambda: read_states(connection, self._keyring, tenant_id))

    def _policy_files(self, config: SystemConfig, root: Path) -> Mapping[str, str]:
        try:
            return read_policy_files(root, config.policies.cedar_files, self._files.read)
        except RemitError as problem:
            raise _unusable_policies_error(problem) from problem

    def _policy(self, inputs: _RulesInputs) -> AccessPolicy:
        """Build the access policy. A policy that is unreadable or invalid denies every request."""
        try:
            files = dict(inputs.policies)
            tenants = {name: tenant.users for name, tenant in inputs.config.tenants.items()}
            actions = sorted({each.access_action for each in inputs.definitions})
            key = digest([files, {name: list(users) for name, users in tenants.items()}, actions])
            return self._policies.get(key, lambda: build_access_policy(files, tenants, actions))
        except RemitError as problem:
            raise _unusable_policies_error(problem) from problem


def _unusable_policies_error(problem: RemitError) -> RefusedError:
    return RefusedError(
        Reason.ACCESS_DENIED,
        f"the access policies cannot be used: {problem.what}",
        where=problem.where or "policies.cedar_files",
        next_step=problem.next_step or "Correct the policy file.",
    )
