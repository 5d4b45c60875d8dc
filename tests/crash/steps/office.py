"""The workspace of goals with several steps that are killed: copies, lines in logs, rows in databases, and composites.

Each effect of a step can be counted in the world: a file, a line of the goal's own log, a row of a database that has
no keys. A second effect of the same step would be a second line or row. A database serves the goals of one lane.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb

from remit.goals.composite.layout import planned_steps
from remit.testing.goal_workspace import GoalWorkspace
from remit.workspace.workspace import Workspace
from tests.goals.composite.composites import LOOK, NOTHING
from tests.goals.goal_office import TENANT, TOUCH, UNDO_ARCHIVE, UNDO_COPY, Office

LANES: Final = ("north", "south", "east", "west")
COPIED: Final = "form\n"
CHANGED: Final = "changed by another program\n"
OBSTACLE: Final = "in the way\n"
CODES: Final = "codes.duckdb"

_IDENTIFIER: Final = {"type": "identifier", "question": "Which name?"}
_NUMBER: Final = {"type": "integer", "question": "Which number?"}
_NAMED: Final[dict[str, Any]] = {
    "version": "1",
    "impact": "impactful",
    "risk": "LOW",
    "access_action": "copy_form",
    "fields": {"name": _IDENTIFIER},
    "timeout_seconds": 60,
}
_COPY: Final = {**TOUCH, "phrases": {}, "timeout_seconds": 60}
_BARRED: Final = {**_COPY, "id": "barred", "title": "Copy a secret form", "access_action": "copy_secrets"}
_LOG: Final[dict[str, Any]] = {
    **_NAMED,
    "id": "log",
    "title": "Write a line into the log",
    "rollback": "undo-log",
    "binding": {
        "type": "plan",
        "template": {
            "action_plan": [
                {
                    "action_id": "write",
                    "action_type": "FILE_MODIFY",
                    "target": "logs/{name}.txt",
                    "reversible": True,
                    "risk_level": "LOW",
                    "operation": {"type": "line_insert", "line_number": 2, "content": "done"},
                }
            ]
        },
    },
}
_UNDO_LOG: Final = {**UNDO_ARCHIVE, "id": "undo-log", "access_action": "copy_form", "rollback": "log"}
_FIND: Final[dict[str, Any]] = {
    "id": "find",
    "version": "1",
    "title": "Find a code",
    "impact": "read_only",
    "risk": "LOW",
    "access_action": "ping",
    "fields": {"number": _NUMBER},
    "rollback": "nothing",
    "timeout_seconds": 60,
    "outputs": {"code": {"type": "identifier", "source": "code"}},
    "binding": {
        "type": "sql",
        "connection": "codes",
        "query": "SELECT code FROM codes WHERE number = $number",
        "parameters": {"number": "{number}"},
    },
}
COMPOSITES: Final[dict[str, list[dict[str, Any]]]] = {
    "pair": [
        {"id": "copy", "simulation": "copy-form", "fields": {"name": "{a}"}},
        {"id": "log", "simulation": "log", "fields": {"name": "{a}"}},
    ],
    "codes": [
        {"id": "find", "simulation": "find", "fields": {"number": "{n}"}},
        {"id": "row", "simulation": "row-LANE", "fields": {"name": "{find.code}"}},
        {"id": "copy", "simulation": "copy-form", "fields": {"name": "{b}"}},
    ],
    "mixed": [
        {"id": "look", "simulation": "look"},
        {"id": "copy", "simulation": "copy-form", "fields": {"name": "{a}"}},
        {"id": "row", "simulation": "row-LANE", "fields": {"name": "{a}"}},
        {"id": "log", "simulation": "log", "fields": {"name": "{a}"}},
    ],
    "long": [
        {"id": "copy", "simulation": "copy-form", "fields": {"name": "{a}"}},
        {"id": "row", "simulation": "row-LANE", "fields": {"name": "{a}"}},
        {"id": "find", "simulation": "find", "fields": {"number": "{n}"}},
        {"id": "log", "simulation": "log", "fields": {"name": "{a}"}},
        {"id": "other", "simulation": "copy-form", "fields": {"name": "{b}"}},
        {"id": "coded", "simulation": "row-LANE", "fields": {"name": "{find.code}"}},
    ],
    "again": [
        {"id": "copy", "simulation": "copy-form", "fields": {"name": "{a}"}},
        {
            "id": "other",
            "simulation": "copy-form",
            "fields": {"name": "{b}"},
            "retry": {"max_attempts": 3, "backoff_ms": [20, 60]},
        },
        {
            "id": "log",
            "simulation": "log",
            "fields": {"name": "{a}"},
            "retry": {"max_attempts": 2, "backoff_ms": [0]},
        },
    ],
    "graph": [
        {"id": "last", "simulation": "log", "fields": {"name": "{a}"}, "depends_on": ["copy", "other"]},
        {"id": "copy", "simulation": "copy-form", "fields": {"name": "{a}"}, "depends_on": []},
        {"id": "other", "simulation": "copy-form", "fields": {"name": "{b}"}, "depends_on": []},
    ],
    "keep": [
        {"id": "copy", "simulation": "copy-form", "fields": {"name": "{a}"}},
        {"id": "log", "simulation": "log", "fields": {"name": "{a}"}},
        {"id": "other", "simulation": "copy-form", "fields": {"name": "{b}"}},
    ],
    "secret": [
        {"id": "copy", "simulation": "copy-form", "fields": {"name": "{a}"}},
        {"id": "log", "simulation": "log", "fields": {"name": "{a}"}},
        {"id": "barred", "simulation": "barred", "fields": {"name": "{b}"}},
    ],
}
WITH_ROWS: Final = frozenset(
    name for name, steps in COMPOSITES.items() if any("LANE" in each["simulation"] for each in steps)
)
_KIND_OF_EFFECT: Final = {"copy-form": "file", "barred": "file", "log": "line", "row-LANE": "row"}
_POLICY: Final = """
@id("mia-does-jobs")
permit (
  principal == User::"acme/mia", action in [Action::"do_jobs", Action::"copy_form", Action::"ping"], resource
);
"""


@dataclass(frozen=True, slots=True)
class StepsOffice:
    scratch: GoalWorkspace
    lanes: tuple[str, ...]
    names: dict[str, tuple[str, str]]
    """The composite and the name of each step, by its id."""
    order: dict[str, tuple[str, ...]]
    """The ids of the steps of each composite, in the order in which they run."""

    def database(self, lane: str) -> Path:
        return self.scratch.root / f"{lane}.duckdb"

    def log(self, name: str) -> Path:
        return self.scratch.root / "logs" / f"{name}.txt"

    def file(self, name: str) -> Path:
        return self.scratch.base / f"{name}.txt"


def full_name(composite: str, lane: str) -> str:
    return f"{composite}-{lane}" if composite in WITH_ROWS else composite


def effects_of(composite: str, *, a: str, b: str, n: int) -> dict[str, tuple[str, str]]:
    """The kind and the name of the effect of each step that has one, by the name of the step."""
    values = {"{a}": a, "{b}": b, "{find.code}": code_of(n)}
    return {
        each["id"]: (_KIND_OF_EFFECT[each["simulation"]], values[each["fields"]["name"]])
        for each in COMPOSITES[composite]
        if each["simulation"] in _KIND_OF_EFFECT
    }


def code_of(number: int) -> str:
    return f"code-{number}"


def utterance(composite: str, lane: str, *, a: str, b: str, n: int) -> str:
    where = f" in the {lane}" if composite in WITH_ROWS else ""
    return f"do the {composite} job{where} with {a} and {b} and {n}"


def make_office(folder: Path, *, goals: int, lanes: int = len(LANES), url: str | None = None) -> StepsOffice:
    """An empty folder becomes a workspace in which everything is promoted, for goals with numbers below `goals`."""
    chosen = LANES[:lanes]
    connections: dict[str, Any] = {each: {"type": "duckdb", "path": f"{each}.duckdb"} for each in chosen}
    connections["codes"] = {"type": "duckdb", "path": CODES, "read_only": True}
    office = Office(folder, url=url, simulations=_simulations(chosen), policy=_POLICY, connections=connections)
    for each in chosen:
        with duckdb.connect(str(office.root / f"{each}.duckdb")) as connection:
            connection.execute("CREATE TABLE rows (name VARCHAR)")
    with duckdb.connect(str(office.root / CODES)) as connection:
        connection.execute(
            f"CREATE TABLE codes AS SELECT range AS number, 'code-' || range AS code FROM range({goals})"
        )
    (office.root / "logs").mkdir()
    scratch = GoalWorkspace(office.root, office.base, office.environ, office.clock)
    names, order = _steps(office.workspace, chosen)
    office.close()
    return StepsOffice(scratch, chosen, names, order)


def _steps(workspace: Workspace, lanes: tuple[str, ...]) -> tuple[dict[str, tuple[str, str]], dict[str, Any]]:
    with workspace.store.reading() as connection:
        catalogue = workspace.goals.rules.catalogue(TENANT, connection)
    names, order = {}, {}
    for composite in dict.fromkeys(full_name(name, lane) for name in COMPOSITES for lane in lanes):
        entry = catalogue.find(composite)
        assert entry is not None
        steps = planned_steps(entry, catalogue)
        names.update({each.step_id: (composite, each.name) for each in steps})
        order[composite] = tuple(each.step_id for each in steps)
    return names, order


def _simulations(lanes: tuple[str, ...]) -> tuple[dict[str, Any], ...]:
    simple = [LOOK, NOTHING, _COPY, UNDO_COPY, _BARRED, _LOG, _UNDO_LOG, _FIND]
    for lane in lanes:
        insert = {**_NAMED, "id": f"row-{lane}", "title": "Add a row", "rollback": f"unrow-{lane}"}
        insert["binding"] = _statement(lane, "INSERT INTO rows VALUES ($name)")
        remove = {**_NAMED, "id": f"unrow-{lane}", "title": "Remove a row", "rollback": f"row-{lane}"}
        remove["fields"] = {**_NAMED["fields"], "of": {"type": "text", "question": "Which goal?", "optional": True}}
        remove["binding"] = _statement(lane, "DELETE FROM rows WHERE name = $name")
        simple += [insert, remove]
    composites = {full_name(name, lane): _composite(name, lane) for name in COMPOSITES for lane in lanes}
    return (*simple, *composites.values())


def _statement(lane: str, query: str) -> dict[str, Any]:
    return {"type": "sql", "connection": lane, "query": query, "parameters": {"name": "{name}"}}


def _composite(name: str, lane: str) -> dict[str, Any]:
    steps = [{**each, "simulation": each["simulation"].replace("LANE", lane)} for each in COMPOSITES[name]]
    return {
        **_NAMED,
        "id": full_name(name, lane),
        "title": f"The {name} job",
        "access_action": "do_jobs",
        "fields": {"a": _IDENTIFIER, "b": _IDENTIFIER, "n": _NUMBER},
        "phrases": {"en": [utterance(name, lane, a="{a}", b="{b}", n="{n}")]},  # type: ignore[arg-type]
        "binding": {"type": "composite", "steps": steps, **({"keep": True} if name == "keep" else {})},
    }
