"""A project with a database, a package of Python code and pipelines of every kind, and actions that run them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from remit.contracts.plans.envelope import Envelope
from remit.core.ids import Clock, system_clock
from tests.plans.project import Project, plan_of
from tests.plans.sql.shop import DATABASE, make_database, rows
from tests.support.kept_text import read_kept

CONNECTIONS: Final = {
    "shop": {"type": "duckdb", "path": DATABASE},
    "closed": {"type": "duckdb", "path": DATABASE, "read_only": True},
    "memory": {"type": "duckdb"},
}
PIPELINES: Final[dict[str, dict[str, Any]]] = {
    "nightly": {
        "type": "sql",
        "connection": "shop",
        "steps": ["sql/raise.sql", "sql/close.sql", "sql/count.sql"],
        "parameters": ["by", "state"],
    },
    "report": {
        "type": "python",
        "steps": ["etl.clean:run", "etl.report:run"],
        "reads": ["data/in.csv", "notes/"],
        "writes": ["out/report.csv", "out/summary.json"],
        "parameters": ["greeting", "mode"],
    },
}
FILES: Final = {
    "sql/raise.sql": "UPDATE orders SET amount = amount + $by;\nINSERT INTO orders VALUES (4, 'new', $by);\n",
    "sql/close.sql": "UPDATE orders SET state = $state WHERE state = 'open';\n",
    "sql/count.sql": "SELECT count(*) AS orders FROM orders;\n",
    "data/in.csv": "id,amount\n1,10\n2,20\n3,\n",
    "notes/a.txt": "first\n",
    "notes/deep/b.txt": "second\n",
    "etl/__init__.py": "",
    "etl/clean.py": """\
import csv


def run(job):
    with open("data/in.csv") as file:
        rows = [row for row in csv.DictReader(file) if row["amount"]]
    with open("clean.csv", "w") as file:
        writer = csv.DictWriter(file, ["id", "amount"])
        writer.writeheader()
        writer.writerows(rows)
    job.log("cleaned")
    job.progress(1, 2)
    return len(rows)
""",
    "etl/report.py": """\
import json
import os


def run(job):
    mode = job.parameters.get("mode", "")
    if mode == "fail":
        raise RuntimeError("no report today")
    os.makedirs("out", exist_ok=True)
    with open("clean.csv") as file:
        lines = file.read()
    with open("out/report.csv", "w") as file:
        file.write(lines)
    if mode == "half":
        return None
    notes = sorted(open(f"notes/{name}").read() for name in ("a.txt", "deep/b.txt"))
    with open("out/summary.json", "w") as file:
        json.dump({"notes": notes, "greeting": job.parameters.get("greeting", "none")}, file)
    print("reported")
    return {"rows": lines.count("\\n") - 1}
""",
}


class Works(Project):
    def __init__(self, folder: Path, clock: Clock = system_clock, **settings: Any) -> None:
        pipelines = {**PIPELINES, **settings.pop("pipelines", {})}
        given = {"connections": CONNECTIONS, "pipelines": pipelines, "pipeline_packages": ["etl"], **settings}
        super().__init__(folder, clock, **given)
        self.database = self.root / DATABASE
        make_database(self.database)
        for path, content in FILES.items():
            self.write(path, content)
        self.before = self.tree()
        self.work = next((folder / "state").iterdir()) / "work"

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return rows(self.database, query)

    def left_over(self) -> list[Path]:
        return sorted(self.work.glob("*")) if self.work.is_dir() else []

    def told_of(self, text: str) -> list[Path]:
        """Every file with the text: state, ledger, reports and project, except databases and the stored previews."""
        kept = read_kept(self.root.parent).items()
        return [path for path, content in kept if ".duckdb" not in path.name and text in content]

    def allowed(self, plan: bytes, *names: str) -> Envelope:
        """Approved, with these actions that cannot be undone."""
        return self.approve(plan, irreversible=names)


def pipeline(action_id: str, name: str, *, reversible: bool = False, **more: Any) -> dict[str, Any]:
    """`parameters` are the pipeline's; all else is of the action."""
    operation = {"type": "pipeline_run", "pipeline": name}
    if parameters := more.pop("parameters", None):
        operation["parameters"] = parameters
    kind = "PIPELINE_RUN"
    return {"action_id": action_id, "action_type": kind, "operation": operation, "reversible": reversible, **more}


def nightly(action_id: str = "a1", by: int = 5, state: str = "closed", **more: Any) -> dict[str, Any]:
    return pipeline(action_id, "nightly", **{"reversible": True, "parameters": {"by": by, "state": state}, **more})


def with_code(open_works: Callable[..., Works], code: str, **settings: Any) -> Works:
    """A project with one more pipeline, `own`, of one function."""
    made = {"type": "python", "steps": ["etl.own:run"], "writes": ["out/own.txt"], **settings}
    works = open_works(pipelines={"own": made})
    works.write("etl/own.py", code)
    works.before = works.tree()
    return works


def problem_of(works: Works, **more: Any) -> tuple[str, str]:
    """Why a preview of `own` says that it would fail; nothing is changed by it, and nothing is left."""
    preview = works.workspace.preview(plan_of(pipeline("p1", "own", **more))).document
    assert works.tree() == works.before
    assert works.left_over() == []
    (problem,) = preview.problems
    return problem.error_type, problem.message
