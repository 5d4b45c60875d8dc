"""Every plan by its name, and which of its calls can be taken away from it."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.crash.plans.plan import Case, PlanScenario
from tests.crash.plans.rollback import TakingBack
from tests.crash.plans.servers import SETTINGS, STATEMENTS, OnServer
from tests.crash.tasks.injections import Sabotage
from tests.crash.tasks.laboratory import Scenario, ScenarioFolders
from tests.support.crash_injection import Point

BYE: Final = ("bye\n", 0o644)
MOVES: Final = ("moves\n", 0o600)
TEXT: Final = ("one\ntwo\n" + "line\n" * 2_000, 0o640)
EDITED: Final = ("one\nthree\n" + "line\n" * 2_000, 0o640)
FRESH: Final = ("fresh\n", 0o644)


def _action(number: int, kind: str, target: str, operation: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"action_id": f"a{number:03}", "action_type": kind, "target": target, "operation": operation, **more}


def _create(number: int, target: str, content: str) -> dict[str, Any]:
    return _action(number, "FILE_CREATE", target, {"type": "write", "content": content})


def _edit(number: int, target: str, old: str, new: str) -> dict[str, Any]:
    operation = {"type": "text_replace", "pattern": old, "replacement": new, "count": 1}
    return _action(number, "FILE_MODIFY", target, operation)


def _delete(number: int, target: str) -> dict[str, Any]:
    return _action(number, "FILE_DELETE", target, {"type": "delete"})


def _rename(number: int, target: str, new_path: str) -> dict[str, Any]:
    return _action(number, "FILE_RENAME", target, {"type": "rename", "new_path": new_path})


EDITS: Final = Case(
    actions=(
        _create(1, "new/deep/n.txt", "fresh\n"),
        _edit(2, "a.txt", "two", "three"),
        _delete(3, "b.txt"),
        _rename(4, "old/c.txt", "new/c.txt"),
    ),
    before={"a.txt": TEXT, "b.txt": BYE, "old/c.txt": MOVES, "other": BYE},
    after={"a.txt": EDITED, "new/deep/n.txt": FRESH, "new/c.txt": MOVES, "other": BYE},
)
SCHEMA: Final = Case(
    actions=(
        _action(
            1,
            "SCHEMA_UPDATE",
            "s.json",
            {"type": "json_add_property", "path": "$.properties", "key": "new", "value": {"type": "string"}},
        ),
        _action(2, "FILE_MODIFY", "c.json", {"type": "json_update_value", "path": "$.a", "value": 2}),
        _action(3, "FILE_MODIFY", "c.yaml", {"type": "yaml_update", "path": "$.a", "value": 2}),
    ),
    before={
        "s.json": ('{"properties": {"old": {}}}\n', 0o644),
        "c.json": ('{"a": 1}\n', 0o644),
        "c.yaml": ("a: 1 # why\n", 0o644),
    },
    after={
        "s.json": ('{"properties": {"old": {}, "new": {"type": "string"}}}\n', 0o644),
        "c.json": ('{"a": 2}\n', 0o644),
        "c.yaml": ("a: 2 # why\n", 0o644),
    },
)
PARALLEL: Final = Case(
    actions=(
        *(_edit(number, f"f{number}", "two", "three") for number in range(1, 5)),
        _create(5, "f5", "fresh\n"),
        _delete(6, "f6"),
    ),
    before={**{f"f{number}": TEXT for number in range(1, 5)}, "f6": BYE},
    after={**{f"f{number}": EDITED for number in range(1, 5)}, "f5": FRESH},
    instructions={"execution_order": "parallel"},
)
CHAIN: Final = Case(
    actions=(
        _create(1, "new/n.txt", "1\n"),
        _edit(2, "new/n.txt", "1", "2"),
        _edit(3, "new/n.txt", "2", "3"),
        _rename(4, "new/n.txt", "new/m.txt"),
        _edit(5, "new/m.txt", "3", "4"),
        _delete(6, "b.txt"),
        _create(7, "b.txt", "bye\n"),
    ),
    before={"b.txt": ("bye\n", 0o644)},
    after={"b.txt": ("bye\n", 0o644), "new/m.txt": ("4\n", 0o644)},
)
FAILING: Final = Case(
    actions=(
        _edit(1, "a.txt", "two", "three"),
        _create(2, "new/n.txt", "fresh\n"),
        _rename(3, "c.txt", "d.txt"),
        _edit(4, "victim", "bye", "hello"),
    ),
    before={"a.txt": TEXT, "c.txt": MOVES, "victim": BYE},
    after={"a.txt": EDITED, "new/n.txt": FRESH, "d.txt": MOVES, "victim": ("hello\n", 0o644)},
    victim="victim",
)
PARTIAL: Final = FAILING._replace(
    actions=(*FAILING.actions, _delete(5, "e.txt")),
    before={**FAILING.before, "e.txt": BYE},
    partly={"a.txt": EDITED, "new/n.txt": FRESH, "d.txt": MOVES},
    instructions={"stop_on_error": False, "rollback_on_failure": False},
)
OLD_SHOP: Final = """
CREATE TABLE orders (id INTEGER PRIMARY KEY, state VARCHAR, amount INTEGER);
CREATE TABLE notes (text VARCHAR);
INSERT INTO orders SELECT range, CASE WHEN range % 2 = 0 THEN 'open' ELSE 'done' END, range * 10 FROM range(1000);
INSERT INTO notes VALUES ('kept');
"""
MIGRATION: Final = (
    "ALTER TABLE orders ADD COLUMN paid BOOLEAN DEFAULT false",
    "UPDATE orders SET paid = true, amount = amount + 1 WHERE state = 'done'",
    "CREATE INDEX orders_by_amount ON orders (amount)",
)
SHOP: Final = "data/shop.duckdb"


def _sql(number: int, *statements: str, **more: Any) -> dict[str, Any]:
    operation = {"type": "sql_execute", "query": ";\n".join(statements), **more}
    return _action(number, "SQL_EXECUTE", SHOP, operation)


SQL: Final = Case(
    actions=(
        _edit(1, "a.txt", "two", "three"),
        _sql(2, *MIGRATION[:2]),
        _sql(3, MIGRATION[2]),  # the engine makes no index in the transaction that changed the rows
        _sql(4, "SELECT count(*) AS n, sum(amount) AS total FROM orders WHERE paid", save_results_to="out/paid.csv"),
        _edit(5, "b.txt", "bye", "hello"),
    ),
    before={"a.txt": TEXT, "b.txt": BYE, SHOP: (OLD_SHOP, 0o640), "other": BYE},
    after={
        "a.txt": EDITED,
        "b.txt": ("hello\n", 0o644),
        SHOP: (";".join((OLD_SHOP, *MIGRATION)), 0o640),
        "out/paid.csv": ("n,total\n500,2500500\n", 0o644),
        "other": BYE,
    },
    settings={"connections": {"duckdb": {"type": "duckdb", "path": SHOP}}},
)
CODE: Final = """
def run(job):
    with open("data/in.txt") as file:
        lines = file.read().splitlines()
    with open("out/sorted.txt", "w") as file:
        file.write("\\n".join(sorted(lines)) + "\\n")
    with open("out/count.txt", "w") as file:
        file.write(f"{len(lines)}\\n")
    return len(lines)
"""
_PIPELINE_INPUTS: Final = {
    "data/in.txt": ("b\na\n", 0o644),
    "etl/run.py": (CODE, 0o644),
    "sql/one.sql": (";\n".join(MIGRATION[:2]), 0o644),
    "sql/two.sql": (MIGRATION[2], 0o644),
}


def _pipeline(number: int, name: str, *, reversible: bool) -> dict[str, Any]:
    operation = {"type": "pipeline_run", "pipeline": name}
    action = {"action_id": f"a{number:03}", "action_type": "PIPELINE_RUN", "operation": operation}
    return {**action, "reversible": reversible}


PIPELINE: Final = Case(
    actions=(
        _edit(1, "a.txt", "two", "three"),
        _pipeline(2, "sort", reversible=False),
        _pipeline(3, "migrate", reversible=True),
    ),
    before={"a.txt": TEXT, "out/count.txt": ("0\n", 0o600), SHOP: (OLD_SHOP, 0o640), **_PIPELINE_INPUTS},
    after={
        "a.txt": EDITED,
        "out/sorted.txt": ("a\nb\n", 0o644),
        "out/count.txt": ("2\n", 0o600),
        SHOP: (";".join((OLD_SHOP, *MIGRATION)), 0o640),
        **_PIPELINE_INPUTS,
    },
    settings={
        "connections": {"duckdb": {"type": "duckdb", "path": SHOP}},
        "pipelines": {
            "sort": {
                "type": "python",
                "steps": ["etl.run:run"],
                "reads": ["data/in.txt"],
                "writes": ["out/sorted.txt", "out/count.txt"],
            },
            "migrate": {"type": "sql", "connection": "duckdb", "steps": ["sql/one.sql", "sql/two.sql"]},
        },
        "pipeline_packages": ["etl"],
    },
    irreversible=("a002",),
    named=("out/sorted.txt", "out/count.txt", SHOP),
)
CASES: Final = {
    "edits": EDITS,
    "schema": SCHEMA,
    "parallel": PARALLEL,
    "chain": CHAIN,
    "failing": FAILING,
    "partial": PARTIAL,
    "sql": SQL,
    "pipeline": PIPELINE,
}
SERVER: Final = Case(
    actions=(
        _edit(1, "a.txt", "two", "three"),
        *(
            {
                "action_id": f"a{number:03}",
                "action_type": "SQL_EXECUTE",
                "operation": {"type": "sql_execute", "query": query, "connection": "shop"},
            }
            for number, query in enumerate(STATEMENTS, start=2)
        ),
        _create(5, "new/n.txt", "fresh\n"),
    ),
    before={"a.txt": TEXT, "other": BYE},
    after={"a.txt": EDITED, "new/n.txt": FRESH, "other": BYE},
    settings=SETTINGS,
)
SCENARIOS: Final[dict[str, Callable[[], Scenario]]] = {
    **{name: partial(PlanScenario, name, case) for name, case in CASES.items()},
    "rollback": partial(TakingBack, "rollback", EDITS),
    "sql rollback": partial(TakingBack, "sql rollback", SQL),
    "pipeline rollback": partial(TakingBack, "pipeline rollback", PIPELINE),
    "server": partial(OnServer, "server", SERVER),
    "edits, retried": partial(PlanScenario, "edits, retried", EDITS, retried=True),
    "sql, retried": partial(PlanScenario, "sql, retried", SQL, retried=True),
}

_SYNCS: Final = frozenset({"fsync", "fdatasync", "sync_file_range"})


def _no_sync_of(judge: Callable[[ScenarioFolders, str], bool], folders: ScenarioFolders) -> Sabotage:
    def forgotten(point: Point) -> bool:
        return point.call in _SYNCS and judge(folders, point.paths[0])

    return forgotten


def _is_part(_ground: ScenarioFolders, path: str) -> bool:
    return os.path.basename(path).startswith(".remit-")


def _is_folder(folders: ScenarioFolders, path: str) -> bool:
    here = Path(path)
    root = folders.left / "project"
    return here.is_dir() and (here == root or (here.is_relative_to(root) and "agent_outputs" not in here.parts))


def _is_backup(_ground: ScenarioFolders, path: str) -> bool:
    return "agent_outputs" in Path(path).parts


def _is_ledger(_ground: ScenarioFolders, path: str) -> bool:
    return os.path.basename(path).startswith("ledger.sqlite3")


SABOTAGES: Final[dict[str, Callable[[ScenarioFolders], Sabotage]]] = {
    "no fsync of parts": partial(_no_sync_of, _is_part),
    "no fsync of target folders": partial(_no_sync_of, _is_folder),
    "no fsync of backups": partial(_no_sync_of, _is_backup),
    "no fsync of the ledger": partial(_no_sync_of, _is_ledger),
}
