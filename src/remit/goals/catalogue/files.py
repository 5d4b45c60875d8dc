"""Reads files of simulations: below the root, with size limits, and without unknown fields. Inserts plan templates."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from remit.contracts.goals.simulation import CatalogueFile, PlanBinding, Simulation
from remit.core.errors import RemitError
from remit.core.ttl_cache import TTLCache
from remit.goals.binding.file_cache import MAX_FILES, FileCache
from remit.parsing import parse_json
from remit.parsing.limits import Bounds
from remit.parsing.yaml import YAML_BOUNDS, parse_yaml

MAX_FILE: Final = CatalogueFile.bounds.max_bytes
MAX_SIMULATIONS: Final = 1_000
Problem = tuple[str, str, str]
"""The field or place, the problem, and the next step."""
_PARSED: Final[TTLCache[tuple[str, ...], Any]] = TTLCache(2 * MAX_FILES, 600)
_FILES: Final = FileCache()


@dataclass(frozen=True, slots=True)
class CatalogueFinding:
    """A problem of a catalogue: the file, the simulation and the field, what is wrong, and the next step."""

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
    """A simulation and its file."""

    file: str
    simulation: Simulation


@dataclass(frozen=True, slots=True)
class ReadFiles:
    """The content of catalogue files. `key` names every file that was read, and the digest of its bytes."""

    definitions: tuple[Definition, ...]
    findings: tuple[CatalogueFinding, ...]
    key: tuple[tuple[str, str], ...]


def read_files(root: Path, files: Sequence[str]) -> ReadFiles:
    """Read each file. A file that cannot be read is a finding, and the others are read nevertheless.

    `root` is the resolved path, without links.
    """
    definitions: list[Definition] = []
    findings: list[CatalogueFinding] = []
    read_digests: list[tuple[str, str]] = []
    base = str(root)
    for file in files:
        try:
            tree = _read_tree(base, file, read_digests)
            known = _PARSED.get(("file", *read_digests[-1]), lambda f=file, t=tree: _parse(t, f))  # type: ignore[misc]
        except RemitError as problem:
            findings.append(_template_finding(file, "", problem))
            continue
        for simulation in known.simulations:
            try:
                definitions.append(Definition(file, _with_template(base, simulation, read_digests)))
            except RemitError as problem:
                findings.append(_template_finding(file, simulation.id, problem))
    if len(definitions) > MAX_SIMULATIONS:
        more = f"there are more than {MAX_SIMULATIONS:,} simulations"
        findings.append(CatalogueFinding(files[-1], "", "", more, "Name fewer files in goals.catalogue."))
    return ReadFiles(tuple(definitions), tuple(findings), tuple(read_digests))


def _parse(tree: Any, file: str) -> CatalogueFile:
    return CatalogueFile.from_tree(tree, source=file)


def _read_tree(root: str, file: str, read_digests: list[tuple[str, str]]) -> Any:
    """Read JSON if the name says so, otherwise YAML. Parsing YAML takes 5 ms per KiB, so the result is cached."""
    raw, found = _FILES.read(root, file, MAX_FILE)
    read_digests.append((file, found))
    return _PARSED.get(("json" if file.endswith(".json") else "yaml", found), lambda: _tree(raw, file))


def _tree(raw: bytes, file: str) -> Any:
    if file.endswith(".json"):
        return parse_json(raw, Bounds(max_bytes=MAX_FILE, max_items=20_000), source=file)
    return parse_yaml(raw, YAML_BOUNDS, source=file)


def _with_template(root: str, simulation: Simulation, read_digests: list[tuple[str, str]]) -> Simulation:
    """Insert the plan template from its file, so that a snapshot needs no file."""
    binding = simulation.binding
    if not isinstance(binding, PlanBinding) or binding.template_file is None:
        return simulation
    template = _read_tree(root, binding.template_file, read_digests)
    key = ("simulation", simulation.own_digest, *read_digests[-1])
    return cast(Simulation, _PARSED.get(key, lambda: _filled_in(simulation, template, read_digests[-1][0])))


def _filled_in(simulation: Simulation, template: Any, file: str) -> Simulation:
    tree = {**simulation.tree(), "binding": {"type": "plan", "template": template, "template_file": None}}
    return Simulation.from_tree(tree, source=file)


def _template_finding(file: str, simulation: str, problem: RemitError) -> CatalogueFinding:
    where = problem.where.removeprefix(file).lstrip(", ")
    return CatalogueFinding(file, simulation, where, problem.what, problem.next_step or "Correct the file.")
