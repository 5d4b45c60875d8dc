"""Two workspaces that differ in nothing but the content of files and rows, and one agent that asks both the same."""

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import duckdb

from remit.core.ids import DEFAULT_TENANT, render_time
from remit.plans.proposals.turns import live_turns
from remit.services.plans.preview_turns import TurnRules
from remit.store.proposal_previews import proposed_since
from tests.plans.project import action, create, delete, digest_of, plan_of, rename, replace
from tests.support.web_server import Answer, WebSite, Who

SECRET: Final = "hunter2"
CAPS: Final = ("plan.propose", "plan.execute_preview", "plan.apply", "plan.undo", "task.run")
SETTINGS: Final[dict[str, Any]] = {
    "connections": {"duckdb": {"type": "duckdb", "path": "data/shop.duckdb"}, "memory": {"type": "duckdb"}}
    | {"open": {"type": "duckdb", "path": "data/open.duckdb"}},
    "pipelines": {"tidy": {"type": "sql", "connection": "duckdb", "steps": ["sql/step.sql"]}},
}
FIRST: Final[dict[str, bytes]] = {
    ".env": f"TOKEN={SECRET}\n".encode(),
    "data.json": b'{"a": {"b": 1}}',
    "conf.yaml": b"a:\n  b: 1\n",
    "notes.txt": f"one\npassword={SECRET}\nthree\n".encode(),
    "even.txt": b"a=1\nb=2\n",
    "query.sql": b"SELECT 1 AS one",
    "sql/step.sql": b"UPDATE orders SET amount = 1",
    "schema.json": b'{"type": "object"}',
    "bytes.bin": b"plain text\n",
    "only-here.txt": b"x\n",
    "is-file": b"x\n",
}
SECOND: Final[dict[str, bytes]] = {
    ".env": b"TOKEN=other-and-longer\nMORE=1\nAND=more\n",
    "data.json": b"no json at all",
    "conf.yaml": b"a: [unclosed\n",
    "notes.txt": b"nothing of the kind\n" * 40,
    "even.txt": b"a=1\nb=2\nc=3\nd=4\n",
    "query.sql": b"SELEC oops FROM somewhere",
    "sql/step.sql": b"DROP TABLE nothing_there",
    "schema.json": b'{"type": 5}',
    "bytes.bin": bytes(range(256)) * 20,
    "is-file/below.txt": b"x\n",
}
TURNS: Final = TurnRules(timedelta(minutes=1), lambda: 1.0)
"""Long, because a test moves the clock to their end. So it does not depend on the speed of the machine."""
_NEUTRAL: Final = (
    (re.compile(r"agent_outputs/reports/[^\"/\\]+"), "<folder>"),
    (re.compile(r"urn:remit:request:[0-9a-f]{32}"), "<request>"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<id>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*Z"), "<time>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "<host>"),
    (re.compile(r"snapshot:[0-9a-f]{32}@sha256:[0-9a-f]{64}"), "<snapshot>"),
    (re.compile(r'"signature": ?"[A-Za-z0-9_-]{80,}"'), '"signature": "<signed>"'),
    (re.compile(r'"key_id": ?"[^"]*"'), '"key_id": "<key>"'),
)


class World:
    def __init__(
        self,
        folder: Path,
        files: Mapping[str, bytes],
        rows: int,
        read: Mapping[str, tuple[str, ...]] | None = None,
        turns: TurnRules = TURNS,
    ) -> None:
        """`read` has the constraints of `plan.read`, which the agent's token has then."""
        folder.mkdir()
        self.site = WebSite(folder, turns=turns, **SETTINGS)
        self.root = self.site.project.root
        for path, content in files.items():
            self.site.project.write(path, content)
        database = self.root / "data" / "shop.duckdb"
        database.parent.mkdir()
        with duckdb.connect(str(database)) as connection:
            connection.execute("CREATE TABLE orders (id INTEGER, amount INTEGER)")
            connection.execute(f"INSERT INTO orders SELECT range, 7 FROM range({rows})")
        with duckdb.connect(str(self.root / "data" / "open.duckdb")) as connection:
            connection.execute("CREATE TABLE cities AS SELECT 'Bern' AS name, 3 AS size")
        self.token = self.site.agent("bot", *CAPS, *(("plan.read",) if read else ()), **(read or {}))
        self.approver = self.site.person("approver")
        self.operator = self.site.person("operator")

    def close(self) -> None:
        self.site.close()

    def end_turns(self) -> None:
        """Move the clock to the end of the last turn, so that the agent is shown what it may read."""
        clock, store = self.site.clock, self.site.workspace.store
        with store.reading() as connection:
            made = proposed_since(connection, DEFAULT_TENANT, render_time(clock() - 20 * TURNS.length)) or []
        ends = [each.turn.ends_at - clock() for each in live_turns(made)]
        clock.offset += max([*ends, timedelta(0)])

    def ask(self, method: str, path: str, body: Any = None, who: Who | None = None, **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.site.ask(method, path, who or self.token, body, named)

    def told(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
        """An answer to the agent, without ids, times and names of this machine."""
        found = self.ask(method, path, body, None, **headers)
        return found.status, self.neutral(found.body.decode())

    def neutral(self, text: str) -> str:
        text = text.replace(str(self.root), "<root>").replace(str(self.site.base), "<base>")
        for pattern, word in _NEUTRAL:
            text = pattern.sub(word, text)
        return text

    def propose(self, plan: bytes) -> str:
        made = self.ask("POST", "/v1/plans", {"plan": json.loads(plan)})
        assert made.status == 201, made.body
        return str(made.tree["proposal_id"])

    def approve(self, proposal_id: str, **allow: Any) -> None:
        place = f"/v1/plans/{proposal_id}"
        shown = self.ask("GET", f"{place}/preview", who=self.approver)
        said = {"approved": True, "preview_digest": shown.tree["preview_digest"], **allow}
        assert self.ask("POST", f"{place}/decision", said, who=self.approver).status == 200, shown.body

    def lease(self, manifest: dict[str, Any], *, by_person: bool) -> dict[str, Any]:
        raw = json.dumps(manifest).encode()
        tasks = self.site.workspace.tasks
        leased = tasks.issue_lease(raw, timedelta(minutes=5), actor="os:ada" if by_person else None)
        return leased.tree()


def _modify(target: str, **operation: Any) -> dict[str, Any]:
    return action("a", "FILE_MODIFY", target, operation)


def _sql(target: str | None = None, **operation: Any) -> dict[str, Any]:
    made = {"action_id": "a", "action_type": "SQL_EXECUTE", "operation": {"type": "sql_execute", **operation}}
    return made if target is None else {**made, "target": target}


def _rule(**rule: Any) -> bytes:
    return plan_of(create("a", "fresh.txt"), rules=[rule])


RIGHT: Final = digest_of(FIRST[".env"])
PLANS: Final[dict[str, bytes]] = {
    "a literal that one of them has": plan_of(replace("a", ".env", SECRET, "x")),
    "a pattern for every separator": plan_of(
        _modify(".env", type="text_replace", pattern="[=:@-]", replacement="!", regex=True)
    ),
    "a text that is in both, not equally often": plan_of(
        _modify("even.txt", type="text_replace", pattern="=", replacement=":")
    ),
    "a delete": plan_of(delete("a", ".env")),
    "a delete of what is there in one": plan_of(delete("a", "only-here.txt")),
    "a rename": plan_of(rename("a", ".env", "readable.txt")),
    "a rename to what is there in one": plan_of(rename("a", "notes.txt", "only-here.txt")),
    "a new file where one is": plan_of(create("a", "only-here.txt")),
    "a new file below what is a file in one": plan_of(create("a", "is-file/new.txt")),
    "a line that one of them has": plan_of(_modify("notes.txt", type="line_insert", line_number=30, content="x")),
    "lines that one of them has": plan_of(_modify("notes.txt", type="line_delete", start_line=20, end_line=21)),
    "an edit of what is no text in one": plan_of(replace("a", "bytes.bin", "plain", "x")),
    "the right hash": plan_of(_modify(".env", type="replace_content", content="x") | {"expected_hash_before": RIGHT}),
    "the right hash afterwards": plan_of(delete("a", "even.txt") | {"expected_hash_before": RIGHT}),
    "json with the key": plan_of(_modify("data.json", type="json_update_value", path="$.a.b", value=1)),
    "json without the key": plan_of(_modify("data.json", type="json_remove_property", path="$.a", key="none")),
    "json to add to": plan_of(_modify("data.json", type="json_add_property", path="$.a", key="c", value=SECRET)),
    "yaml": plan_of(_modify("conf.yaml", type="yaml_update", path="$.a.b", value=1)),
    "a schema": plan_of(
        action("a", "SCHEMA_UPDATE", "schema.json", {"type": "json_add_property", "path": "$", "key": "x", "value": 1})
    ),
    "a query file": plan_of(_sql(query_file="query.sql", connection="duckdb")),
    "a query file that holds no query": plan_of(_sql(query_file=".env", connection="memory", save_results_to="r.csv")),
    "rows counted": plan_of(_sql(query="UPDATE orders SET amount = 8 WHERE id > 3")),
    "rows expected": plan_of(_sql(query="SELECT * FROM orders WHERE id = 7", expect_results=True)),
    "rows saved": plan_of(_sql(query="SELECT * FROM orders", save_results_to="rows.csv")),
    "an error by a row": plan_of(
        _sql(query="SELECT CASE WHEN count(*) > 3 THEN error('many') END FROM orders", save_results_to="r.csv")
    ),
    "a pipeline": plan_of(
        action("a", "PIPELINE_RUN", "", {"type": "pipeline_run", "pipeline": "tidy"}, reversible=True)
        | {"target": None}
    ),
    "own content with a credential": plan_of(create("a", "own.txt", "password = 'sw0rdfish-own-text'\n")),
    "a program": plan_of(create("a", "own.sh", "#!/bin/sh\necho own\n")),
    "two that fit, and one that does not": plan_of(
        create("a", "own.txt", "mine\n"), replace("b", ".env", SECRET, "x"), stop_on_error=False
    ),
    "rule: a file": _rule(type="file_exists", path="only-here.txt"),
    "rule: no file": _rule(type="file_absent", path="only-here.txt"),
    "rule: a hash": _rule(type="hash", path=".env", digest=RIGHT),
    "rule: a schema": _rule(type="json_schema", path="data.json", schema={"type": "object"}),
    "rule: a schema file": _rule(type="json_schema", path="data.json", schema_file="schema.json"),
    "rule: a path": _rule(type="json_path", path="data.json", expression="$.a.b", expected=1),
    "rule: rows": _rule(type="sql_expect", query="SELECT count(*) FROM orders", expected=[[2]]),
    "refused: outside": plan_of(create("a", "../outside.txt")),
    "refused: of Remit": plan_of(replace("a", "remit.yaml", "version", "x")),
    "refused: no such connection": plan_of(_sql(query="SELECT 1", connection="nowhere")),
    "refused: a circle": plan_of(
        create("a", "own.txt") | {"depends_on": ["b"]}, create("b", "own2.txt") | {"depends_on": ["a"]}
    ),
    "refused: no plan": b'{"plan_id": "x"}',
}
