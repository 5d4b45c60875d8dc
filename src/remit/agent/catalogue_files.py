"""Files of simulations, read: below the root, bounded, closed; a plan's template from its own file put in its place."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from remit.agent.kept import Kept
from remit.canonical import digest, digest_bytes
from remit.contracts.simulation import CatalogueFile, PlanBinding, Simulation
from remit.doors.reading import read_below
from remit.errors import RemitError
from remit.untrusted import parse_json
from remit.untrusted.bounds import Bounds
from remit.untrusted.yaml_text import YAML_BOUNDS, parse_yaml

MAX_FILE: Final = CatalogueFile.bounds.max_bytes
MAX_SIMULATIONS: Final = 1_000
_PARSED: Final[Kept[str, Any]] = Kept(64, 600)


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with a catalogue, in which file, simulation and field, and what to do about it."""

    file: str
    simulation: str
    field: str
    what: str
    next_step: str

    @property
    def where(self) -> str:
        simulation = f"simulation {self.simulation}" if self.simulation else ""
        return ", ".join(part for part in (self.file, simulation, self.field) if part)


@dataclass(frozen=True, slots=True)
class Definition:
    """A simulation, and the file that it stands in."""

    file: str
    simulation: Simulation


@dataclass(frozen=True, slots=True)
class ReadFiles:
    """`key` is the digest of every byte that was read, with the names of the files."""

    definitions: tuple[Definition, ...]
    findings: tuple[Finding, ...]
    key: str


def read_files(root: Path, files: Sequence[str]) -> ReadFiles:
    """Each file on its own: one that cannot be read is a finding, and the others are read all the same."""
    definitions: list[Definition] = []
    findings: list[Finding] = []
    seen: list[list[str]] = []
    for file in files:
        try:
            tree = _read_tree(root, file, seen)
            known = _PARSED.get(f"file {digest([file, seen[-1]])}", lambda f=file, t=tree: _parse(t, f))  # type: ignore[misc]
        except RemitError as problem:
            findings.append(_told(file, "", problem))
            continue
        for simulation in known.simulations:
            try:
                definitions.append(Definition(file, _with_template(root, simulation, seen)))
            except RemitError as problem:
                findings.append(_told(file, simulation.id, problem))
    if len(definitions) > MAX_SIMULATIONS:
        more = f"there are more than {MAX_SIMULATIONS:,} simulations"
        findings.append(Finding(files[-1], "", "", more, "Name fewer files in goals.catalogue."))
    return ReadFiles(tuple(definitions), tuple(findings), digest(seen))


def _parse(tree: Any, file: str) -> CatalogueFile:
    return CatalogueFile.from_tree(tree, source=file)


def _read_tree(root: Path, file: str, seen: list[list[str]]) -> Any:
    """JSON by its name, else YAML, which is read at 5 ms a KiB: so what the same bytes said is kept."""
    raw, found = read_below(str(root.resolve()), file, MAX_FILE)
    seen.append([file, found])
    return _PARSED.get(f"tree {file.endswith('.json')} {digest_bytes(raw)}", lambda: _tree(raw, file))


def _tree(raw: bytes, file: str) -> Any:
    if file.endswith(".json"):
        return parse_json(raw, Bounds(max_bytes=MAX_FILE, max_items=20_000), source=file)
    return parse_yaml(raw, YAML_BOUNDS, source=file)


def _with_template(root: Path, simulation: Simulation, seen: list[list[str]]) -> Simulation:
    """The plan itself, so that a snapshot needs no file."""
    binding = simulation.binding
    if not isinstance(binding, PlanBinding) or binding.template_file is None:
        return simulation
    template = _read_tree(root, binding.template_file, seen)
    tree = {**simulation.tree(), "binding": {"type": "plan", "template": template, "template_file": None}}
    return Simulation.from_tree(tree, source=binding.template_file)


def _told(file: str, simulation: str, problem: RemitError) -> Finding:
    where = problem.where.removeprefix(file).lstrip(", ")
    return Finding(file, simulation, where, problem.what, problem.next_step or "Mend the file.")
