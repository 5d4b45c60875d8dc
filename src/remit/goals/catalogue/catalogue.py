"""The catalogue: the simulations of one tenant and their states, at one moment.

Definitions come from files. One problem in them refuses all of them. States come from the ledger. A state belongs to
the digest that a person promoted: if the file of a simulation changes, the simulation is a draft again. A catalogue
object never changes. Its `ref` is the digest of its document, from which the same catalogue can be built again.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Self

from remit.contracts.config.config import PostgresqlConnection, SystemConfig
from remit.contracts.goals.packets import PacketStep
from remit.contracts.goals.simulation import CatalogueSnapshot, CompositeBinding, Simulation, SqlBinding, State
from remit.core.canonical import canonical_bytes, digest
from remit.core.errors import Reason, RefusedError
from remit.core.ttl_cache import TTLCache
from remit.goals.catalogue.check import check_definitions
from remit.goals.catalogue.files import CatalogueFinding, Definition, read_files
from remit.goals.composite.order import ordered_steps
from remit.ledger.goal_queries import PromotedState

MAX_DOCUMENT: Final = 3 << 20
_DEFINITIONS: Final[TTLCache[tuple[Any, ...], tuple[Simulation, ...]]] = TTLCache(16, 600)
_CATALOGUES: Final[TTLCache[tuple[str, tuple[tuple[str, State], ...]], "Catalogue"]] = TTLCache(64, 600)


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A simulation, the digest of its definition, and its state for this tenant."""

    simulation: Simulation
    digest: str
    state: State


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The simulations of one tenant, sorted by id. Built with `build_catalogue` or `from_document`."""

    tenant_id: str
    entries: tuple[CatalogueEntry, ...]
    ref: str = field(init=False)
    _by_id: Mapping[str, CatalogueEntry] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ids = [entry.simulation.id for entry in self.entries]
        known = {entry.simulation.id: entry.simulation for entry in self.entries}
        if ids != sorted(set(ids)) or any(
            entry.digest != entry_digest(entry.simulation, known) for entry in self.entries
        ):
            raise RefusedError(
                Reason.EVIDENCE_INVALID,
                "this catalogue is not sorted by id, or a digest in it does not match its simulation",
                where=f"catalogue of tenant {self.tenant_id}",
                next_step="Build it from the files again.",
            )
        object.__setattr__(self, "_by_id", dict(zip(ids, self.entries, strict=True)))
        object.__setattr__(self, "ref", digest(self.document()))

    def __iter__(self) -> Iterator[CatalogueEntry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def find(self, simulation_id: str) -> CatalogueEntry | None:
        return self._by_id.get(simulation_id)

    def steps_of(self, entry: CatalogueEntry) -> tuple[PacketStep, ...]:
        """Return the steps of a composite simulation in the order in which they run, with their digests. Else none.

        Args:
            entry: An entry of this catalogue.

        Returns:
            The steps. A step whose simulation the catalogue does not have is left out.
        """
        if not isinstance(entry.simulation.binding, CompositeBinding):
            return ()
        found = ((step, self.find(step.simulation)) for step in ordered_steps(entry.simulation.binding))
        return tuple(
            PacketStep(step=step.id, simulation=step.simulation, digest=each.digest)
            for step, each in found
            if each is not None
        )

    def document(self) -> dict[str, Any]:
        """Return the catalogue as JSON that contains everything a replay needs."""
        listed = [
            {"simulation": entry.simulation.tree(), "digest": entry.digest, "state": entry.state}
            for entry in self.entries
        ]
        return {"version": 1, "tenant_id": self.tenant_id, "simulations": listed}

    @classmethod
    def from_document(cls, tree: Any) -> Self:
        snapshot = CatalogueSnapshot.from_tree(tree, source="the snapshot of a catalogue")
        entries = (CatalogueEntry(each.simulation, each.simulation_digest, each.state) for each in snapshot.simulations)
        return cls(snapshot.tenant_id, tuple(entries))


def load_definitions(root: Path, config: SystemConfig) -> tuple[Simulation, ...]:
    """Load the simulations of a workspace from the files that its remit.yaml names. Raises if they have a problem."""
    found = read_definitions(root, config.goals.catalogue, read_only_connections=read_only_connections(config))
    findings = find_unknown_connections(found, config)
    if findings:
        raise refusal(findings)
    return found


def find_unknown_connections(definitions: Sequence[Simulation], config: SystemConfig) -> list[CatalogueFinding]:
    """Return the queries that users could confirm and never run, and outputs that a connection cannot give.

    A query for a database that remit.yaml does not name cannot run. The rows of a server are known from its preview. So
    it gives no outputs if that preview does not run the query, or if the query changes rows: the run makes others.
    """
    named = ", ".join(sorted(config.connections)) or "none"
    found: list[CatalogueFinding] = []
    for each in definitions:
        if not isinstance(each.binding, SqlBinding):
            continue
        connection = config.connections.get(each.binding.connection)
        if connection is None:
            what = f"remit.yaml has no connection {each.binding.connection!r}; it has {named}"
            advice = "Name one of them, or add the connection under `connections`."
            found.append(CatalogueFinding("goals.catalogue", each.id, "binding.connection", what, advice))
        elif isinstance(connection, PostgresqlConnection) and each.outputs and not _shows_rows(each, connection):
            what = "on a server, only a query that reads has outputs, and its connection needs `preview: execute`"
            found.append(CatalogueFinding("goals.catalogue", each.id, "outputs", what, "Read it in a step of its own."))
    return found


def _shows_rows(simulation: Simulation, connection: PostgresqlConnection) -> bool:
    return simulation.impact == "read_only" and connection.preview == "execute"


def read_only_connections(config: SystemConfig) -> tuple[str, ...]:
    """Return the connections that a read-only simulation may use. On these the database itself refuses writes."""
    return tuple(sorted(name for name, connection in config.connections.items() if connection.read_only))


def read_definitions(
    root: Path, files: Sequence[str], *, read_only_connections: Collection[str] = ()
) -> tuple[Simulation, ...]:
    """Read all simulations of these files, sorted by id. Refuses all of them if one has a problem.

    The files are checked each time. The result for unchanged bytes is reused.
    """
    read = read_files(root, files)
    if read.findings:
        raise refusal(read.findings)
    key = (read.key, *sorted(read_only_connections))
    return _DEFINITIONS.get(key, lambda: _checked(read.definitions, read_only_connections))


def check_catalogue(root: Path, config: SystemConfig) -> tuple[tuple[Definition, ...], tuple[CatalogueFinding, ...]]:
    """Run `check_files` on the files that the workspace's remit.yaml names, and check its connections."""
    files, read_only = config.goals.catalogue, read_only_connections(config)
    definitions, findings = check_files(root, files, read_only_connections=read_only)
    return definitions, (*findings, *find_unknown_connections([each.simulation for each in definitions], config))


def check_files(
    root: Path, files: Sequence[str], *, read_only_connections: Collection[str] = ()
) -> tuple[tuple[Definition, ...], tuple[CatalogueFinding, ...]]:
    """Return the readable definitions of these files, and all problems. Raises no error about their content."""
    read = read_files(root.resolve(), files)
    return read.definitions, (*read.findings, *check_definitions(read.definitions, read_only_connections))


def entry_digest(simulation: Simulation, known: Mapping[str, Simulation]) -> str:
    """Return the digest by which a person promotes a simulation.

    For a composite simulation it covers the whole: its own definition, and that of each step and of its rollback. For
    all others it is the digest of the definition.

    Args:
        simulation: The simulation.
        known: All simulations of the catalogue, by id.

    Returns:
        The digest.
    """
    if not isinstance(simulation.binding, CompositeBinding):
        return simulation.own_digest
    steps: list[tuple[str, str | None, str | None]] = []
    for step in simulation.binding.steps:
        runs = known.get(step.simulation)
        undo = known.get(runs.rollback) if runs is not None and runs.rollback is not None else None
        steps.append((step.id, runs.own_digest if runs else None, undo.own_digest if undo else None))
    return _composite_digest(simulation.own_digest, tuple(steps))


@lru_cache(maxsize=1_024)
def _composite_digest(definition: str, steps: tuple[tuple[str, str | None, str | None], ...]) -> str:
    listed = [{"step": name, "simulation": runs, "rollback": undo} for name, runs, undo in steps]
    return digest({"definition": definition, "steps": listed})


def build_catalogue(
    tenant_id: str, definitions: Sequence[Simulation], states: Mapping[str, PromotedState]
) -> Catalogue:
    """Build the catalogue of one tenant. A simulation is a draft unless its current definition was promoted."""
    ordered = sorted(definitions, key=lambda simulation: simulation.id)
    known = {simulation.id: simulation for simulation in ordered}
    entries = tuple(
        CatalogueEntry(simulation, current, _state_of(current, states.get(simulation.id)))
        for simulation, current in ((simulation, entry_digest(simulation, known)) for simulation in ordered)
    )
    key = tuple((entry.digest, entry.state) for entry in entries)
    return _CATALOGUES.get((tenant_id, key), lambda: Catalogue(tenant_id, entries))


def refusal(findings: Sequence[CatalogueFinding]) -> RefusedError:
    first, more = findings[0], len(findings) - 1
    others = f"; and {more} more, which `remit catalogue check` lists" if more else ""
    return RefusedError(Reason.MALFORMED, f"{first.what}{others}", where=first.where, next_step=first.next_step)


def _state_of(current: str, promoted: PromotedState | None) -> State:
    return promoted.state if promoted is not None and promoted.digest == current else "DRAFT"


def _checked(definitions: Sequence[Definition], read_only: Collection[str]) -> tuple[Simulation, ...]:
    findings = check_definitions(definitions, read_only)
    if findings:
        raise refusal(findings)
    simulations = tuple(sorted((each.simulation for each in definitions), key=lambda simulation: simulation.id))
    size = sum(len(canonical_bytes(simulation.tree())) for simulation in simulations)
    if size > MAX_DOCUMENT:
        raise RefusedError(
            Reason.TOO_LARGE,
            f"the simulations together are larger than {MAX_DOCUMENT:,} bytes",
            where="goals.catalogue",
            next_step="Keep large content in files that a plan copies, and not in its template.",
        )
    return simulations
