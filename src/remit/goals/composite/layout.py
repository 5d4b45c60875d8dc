"""The steps of a goal, from its packet and the promoted catalogue. Pure.

A goal has one step, or the steps of a composite simulation in a fixed order. The id of a step is derived from the
digest of the composite, so it is the same in every process. Each id of a simulation comes from the Finder's packet.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from pydantic import JsonValue

from remit.contracts.goals.goal import StepRetryPolicy
from remit.contracts.goals.packets import SimulationMatchPacket
from remit.contracts.goals.simulation import CompositeBinding, CompositeStep, Simulation
from remit.core.canonical import digest
from remit.goals.catalogue.catalogue import Catalogue, CatalogueEntry
from remit.goals.composite.order import ordered_steps, resolve_fields

FIRST_STEP: Final = "step-1"
"""The step of a goal with a single step."""
WHOLE: Final = "goal"
"""The step id of the rows about a whole goal with several steps."""
ONCE: Final = StepRetryPolicy(max_attempts=1)
"""One attempt. A caller may repeat a dispatch any number of times; its effect happens once."""
_ROLLBACK: Final = "-rollback"
_UNDO: Final = f"{WHOLE}{_ROLLBACK}"
Outputs = Mapping[str, Mapping[str, JsonValue]]
"""The outputs of completed steps, by the name of the step."""


class PlannedStep(NamedTuple):
    """One step: its derived id, its name, its simulation, and its part of the composite (None for a single step)."""

    step_id: str
    name: str
    simulation_id: str
    definition: CompositeStep | None = None
    only_reads: bool = False
    """Whether its simulation only reads, so that it has no effect that can remain."""

    @property
    def retry(self) -> StepRetryPolicy:
        return self.definition.retry if self.definition is not None and self.definition.retry is not None else ONCE


@dataclass(frozen=True, slots=True)
class StepTarget:
    """What one step runs: the simulation with its present entry, and the values of its fields."""

    step: PlannedStep
    entry: CatalogueEntry
    fields: Mapping[str, JsonValue]
    whole: CatalogueEntry | None = None
    """The composite that the step belongs to."""
    is_first: bool = True

    @property
    def simulation(self) -> Simulation:
        return self.entry.simulation


def is_composite(simulation: Simulation) -> bool:
    return isinstance(simulation.binding, CompositeBinding)


def step_id_of(composite_digest: str, name: str) -> str:
    return f"step-{digest([composite_digest, name]).removeprefix('sha256:')[:24]}"


def rollback_id_of(step_id: str) -> str:
    """Return the id of the step that rolls a step back."""
    return f"{step_id}{_ROLLBACK}"


def undo_id_of(number: int) -> str:
    """Return the id of the step that asks the user whether the whole goal is rolled back, for the n-th time."""
    return _UNDO if number == 1 else f"{_UNDO}-{number}"


def is_undo(step_id: str) -> bool:
    return step_id.startswith(_UNDO)


def rolled_back_id(step_id: str) -> str | None:
    """Return the id of the step that this step rolls back. None if it is no rollback."""
    return step_id.removesuffix(_ROLLBACK) if step_id.endswith(_ROLLBACK) and not is_undo(step_id) else None


def planned_steps(whole: CatalogueEntry, catalogue: Catalogue) -> tuple[PlannedStep, ...]:
    """Return the steps of a composite in the order in which they run. `catalogue` has their simulations."""
    binding = whole.simulation.binding
    if not isinstance(binding, CompositeBinding):
        return ()
    return tuple(
        PlannedStep(
            step_id_of(whole.digest, each.id), each.id, each.simulation, each, _only_reads(catalogue, each.simulation)
        )
        for each in ordered_steps(binding)
    )


def _only_reads(catalogue: Catalogue, simulation_id: str) -> bool:
    entry = catalogue.find(simulation_id)
    return entry is not None and entry.simulation.impact == "read_only"


def packet_problem(packet: SimulationMatchPacket, whole: CatalogueEntry, catalogue: Catalogue) -> str:
    """Say why the steps of the packet are not the promoted steps of its simulation. Empty if they are."""
    if not is_composite(whole.simulation):
        return "the packet has steps, and its simulation has none" if packet.steps else ""
    promoted = []
    for step in planned_steps(whole, catalogue):
        entry = catalogue.find(step.simulation_id)
        promoted.append((step.name, step.simulation_id, entry.digest if entry is not None else ""))
    named = [(each.step, each.simulation, each.simulation_digest) for each in packet.steps]
    return "" if named == promoted else "the steps of the packet are not those of the simulation"


def find_target(
    packet: SimulationMatchPacket, catalogue: Catalogue, step_id: str, outputs: Outputs
) -> StepTarget | None:
    """Return what a step runs. None if the goal has no such step, or the catalogue has no such simulation."""
    whole = catalogue.find(packet.candidates[0].simulation_id)
    if whole is None:
        return None
    if is_undo(step_id):
        return StepTarget(PlannedStep(step_id, "", whole.simulation.id), whole, packet.fields)
    if not is_composite(whole.simulation):
        step = PlannedStep(step_id, "", whole.simulation.id)
        return StepTarget(step, whole, packet.fields)
    for number, step in enumerate(planned_steps(whole, catalogue)):
        if step.step_id == step_id and step.definition is not None:
            entry = catalogue.find(packet.steps[number].simulation if number < len(packet.steps) else "")
            if entry is None:
                return None
            fields = resolve_fields(step.definition, packet.fields, outputs, entry.simulation.fields)
            return StepTarget(step, entry, fields, whole, is_first=number == 0)
    return None
