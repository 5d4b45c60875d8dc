"""An agent with `plan.read` on `docs/**` sees the previews of plans on docs, and of every other plan as much as before.

The two worlds differ in the content of files and rows outside of docs, and in the files inside that are never shown.
"""

import json
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from remit.cli import main
from remit.contracts.plans.agent_views import AgentProposalPreview, AgentReadPreview
from remit.ledger.counted_entries import MAX_SINGLES
from remit.plans.proposals import admission
from remit.services.plans.preview_reads import COUNTED_READS, PREVIEW_READ
from tests.mcp_server.mcp_office import over_http, talking
from tests.plans.agent_views.test_two_worlds import check_all_views
from tests.plans.agent_views.worlds import FIRST, PLANS, SECOND, SECRET, World
from tests.plans.project import action, create, delete, digest_of, plan_of, rename, replace
from tests.support.shared_zygotes import zygotes_are_shared
from tests.support.web_server import Who
from tests.web.api.test_events import listening

__all__ = ["zygotes_are_shared"]
Worlds = tuple[World, World]
pytestmark = pytest.mark.req("PV-04")

READ: Final[dict[str, tuple[str, ...]]] = {"paths": ("docs/**", "?ocs/b.md"), "connections": ("open",)}
DOCS: Final[dict[str, bytes]] = {
    "docs/a.md": b"one\ntwo\nthree\n",
    "docs/b.md": b"beta\n",
    "docs/data.json": b'{"a": {"b": 1}}\n',
    "docs/conf.yaml": b"a:\n  b: 1\n",
    "docs/schema.json": b'{"type": "object"}\n',
    "docs/q.sql": b"SELECT name FROM cities",
    "docs/write.sql": b"UPDATE cities SET size = 4",
    "docs/broken.sql": b"SELECT nothing FROM nowhere",
}
"""The same in both worlds."""
HIDDEN: Final[tuple[dict[str, bytes], dict[str, bytes]]] = (
    {
        "docs/creds.md": f"intro\npassword = '{SECRET}-and-more'\nend\n".encode(),
        "docs/late.md": b"x\n" * 50 + b"api_key = 'ghp_0123456789abcdefghijklmnopqrstuvwxyz'\n",
        "docs/masked.xml": b"one\n<password>hq7Z-tango-mike</password>\n",
        "docs/write-creds.sql": b"INSERT INTO users (name, password) VALUES ('ada', 'hq7Z-tango-mike')",
        "docs/creds.sql": f"SELECT 1 AS one -- password='{SECRET}-and-more'".encode(),
        "docs/CLAUDE.md": b"Never tell anyone.\n",
        "docs/.env": f"TOKEN={SECRET}\n".encode(),
        "docs/binary.md": b"plain\n" + bytes(range(256)),
        "docs/large.md": b"plain\n" * 400_000,
        "docs-old/a.md": b"plain one\n",
        "Docs/a.md": b"plain one\n",
        "docsa.md": b"plain one\n",
        "sub/docs/a.md": b"plain one\n",
    },
    {
        "docs/creds.md": b"another\n" * 30 + b"password = 'completely-different-9'\n",
        "docs/late.md": b"y\n" * 5 + b"secret_key = 'ghp_zyxwvutsrqponmlkjihgfedcba9876543210'\n",
        "docs/masked.xml": b"one\n<password>x9-ray-bravo-and-more</password>\nend\n",
        "docs/write-creds.sql": b"INSERT INTO users (name, password) VALUES ('ada', 'x9-ray-bravo')",
        "docs/creds.sql": b"SELEC oops -- password='another-secret-77'",
        "docs/CLAUDE.md": b"Something else altogether.\n" * 9,
        "docs/.env": b"TOKEN=other-and-longer\nMORE=1\n",
        "docs/binary.md": bytes(range(256)) * 3,
        "docs/large.md": b"other\n" * 300_000,
        "docs-old/a.md": b"nothing\n" * 3,
        "Docs/a.md": b"nothing\n" * 3,
        "docsa.md": b"nothing\n" * 3,
        "sub/docs/a.md": b"nothing\n" * 3,
    },
)


def _sql(**operation: Any) -> dict[str, Any]:
    return {"action_id": "s", "action_type": "SQL_EXECUTE", "operation": {"type": "sql_execute", **operation}}


def _doc(action_id: str = "d") -> dict[str, Any]:
    return replace(action_id, "docs/a.md", "two", "2")


def _edit(target: str, **operation: Any) -> dict[str, Any]:
    return action("e", "FILE_MODIFY", target, operation)


def _with_rule(**rule: Any) -> bytes:
    return plan_of(_doc(), rules=[rule])


PIPELINE: Final = action("p", "PIPELINE_RUN", "", {"type": "pipeline_run", "pipeline": "tidy"}, reversible=True) | {
    "target": None
}
RIGHT: Final = digest_of(FIRST["notes.txt"])
BORDER: Final[dict[str, bytes]] = {
    "beside an edit that fits one": plan_of(_doc(), replace("e", ".env", SECRET, "x"), stop_on_error=False),
    "beside a line that is there in one": plan_of(
        _doc(), _edit("notes.txt", type="line_insert", line_number=30, content="x"), stop_on_error=False
    ),
    "after an edit that fits one": plan_of(
        replace("e", "notes.txt", SECRET, "x"), _doc() | {"depends_on": ["e"]}, stop_on_error=False
    ),
    "beside an edit of JSON": plan_of(_doc(), _edit("data.json", type="json_update_value", path="$.a.b", value=1)),
    "beside an edit of YAML": plan_of(_doc(), _edit("conf.yaml", type="yaml_update", path="$.a.b", value=1)),
    "beside a pattern": plan_of(
        _doc(), _edit("notes.txt", type="text_replace", pattern="p.*w", replacement="", regex=True)
    ),
    "beside the right hash": plan_of(_doc(), delete("e", "notes.txt") | {"expected_hash_before": RIGHT}),
    "beside a new file": plan_of(_doc(), create("e", "only-here.txt")),
    "rename out": plan_of(rename("e", "docs/a.md", "only-here.txt")),
    "rename in": plan_of(rename("e", "notes.txt", "docs/new.md")),
    "rename in and edit": plan_of(rename("e", "notes.txt", "docs/new.md"), replace("d", "docs/new.md", "one", "1")),
    "rule: a hash": _with_rule(type="hash", path="notes.txt", digest=RIGHT),
    "rule: a file": _with_rule(type="file_exists", path="only-here.txt"),
    "rule: a path": _with_rule(type="json_path", path="data.json", expression="$.a.b", expected=1),
    "rule: a schema": _with_rule(type="json_schema", path="data.json", schema={"type": "object"}),
    "rule: a schema file outside": _with_rule(type="json_schema", path="docs/data.json", schema_file="schema.json"),
    "rule: rows": _with_rule(
        type="sql_expect", query="SELECT count(*) FROM orders", expected=[[2]], connection="duckdb"
    ),
    "rows of another connection": plan_of(_doc(), _sql(query="SELECT * FROM orders WHERE id = 7", connection="duckdb")),
    "rows of another connection, saved in docs": plan_of(
        _sql(query="SELECT * FROM orders", connection="duckdb", save_results_to="docs/rows.csv")
    ),
    "rows saved outside": plan_of(_sql(query="SELECT 1 AS x", connection="open", save_results_to="only-here.csv")),
    "a query file outside": plan_of(_sql(query_file="query.sql", connection="open", save_results_to="docs/rows.csv")),
    "a query file with a credential": plan_of(_sql(query_file="docs/creds.sql", connection="open")),
    "a pipeline": plan_of(_doc(), PIPELINE),
    "glob: a sibling": plan_of(replace("e", "docs-old/a.md", "plain", "x")),
    "glob: another case": plan_of(replace("e", "Docs/a.md", "plain", "x")),
    "glob: a prefix": plan_of(replace("e", "docsa.md", "plain", "x")),
    "glob: docs deeper": plan_of(replace("e", "sub/docs/a.md", "plain", "x")),
    "glob: spelled with dots": plan_of(replace("e", "./docs-old/./a.md", "plain", "x")),
    "refused: above docs": plan_of(replace("e", "docs/../notes.txt", "one", "x")),
    "a link": plan_of(replace("e", "docs/link.md", "one", "x")),
    "a folder that is a link": plan_of(replace("e", "docs/folder/notes.txt", "one", "x")),
    "a hard link": plan_of(replace("e", "docs/hard.md", "one", "x")),
    "protected: instructions": plan_of(replace("e", "docs/CLAUDE.md", "Never", "x")),
    "protected: environment": plan_of(replace("e", "docs/.env", SECRET, "x")),
    "protected: beside": plan_of(_doc(), delete("e", "docs/.env")),
    "credential: edited": plan_of(replace("e", "docs/creds.md", "intro", "x")),
    "credential: removed": plan_of(_edit("docs/creds.md", type="line_delete", start_line=2, end_line=2)),
    "credential: deleted": plan_of(delete("e", "docs/creds.md")),
    "credential: renamed": plan_of(rename("e", "docs/creds.md", "docs/moved.md")),
    "credential: far from the edit": plan_of(_edit("docs/late.md", type="line_insert", line_number=1, content="z")),
    "credential: no match": plan_of(replace("e", "docs/late.md", "completely", "z")),
    "credential: beside": plan_of(_doc(), replace("e", "docs/creds.md", "intro", "x"), stop_on_error=False),
    "credential: only masked": plan_of(replace("e", "docs/masked.xml", "one", "x")),
    "credential: only masked, matched": plan_of(replace("e", "docs/masked.xml", "<password>h", "x")),
    "credential: only masked, a statement": plan_of(_sql(query_file="docs/write-creds.sql", connection="open")),
    "binary": plan_of(replace("e", "docs/binary.md", "plain", "x")),
    "large": plan_of(_edit("docs/large.md", type="line_insert", line_number=1, content="x")),
}
"""Each touches, reads or checks something that the agent may not read, mostly beside an edit that it may."""
SENT_IT: Final = {name for name, plan in BORDER.items() if SECRET.encode() in plan}
NOT_COMPARED: Final = ("inputs", "preview_digest", "config_digest", "pipelines", "withheld", "files")
SHOWN: Final[dict[str, tuple[bytes, str]]] = {
    "an edit": (plan_of(_doc()), "-two\n+2"),
    "no match": (plan_of(replace("e", "docs/a.md", "four", "4")), "WOULD_FAIL"),
    "the wrong hash": (plan_of(_doc() | {"expected_hash_before": RIGHT}), "WOULD_FAIL"),
    "a new file": (plan_of(create("e", "docs/deep/er/new.md", "mine\n")), "docs/deep/er"),
    "a new file where one is": (plan_of(create("e", "docs/a.md")), "WOULD_FAIL"),
    "a delete": (plan_of(delete("e", "docs/a.md")), "-three"),
    "a rename": (plan_of(rename("e", "docs/a.md", "docs/z.md")), "docs/z.md"),
    "JSON": (plan_of(_edit("docs/data.json", type="json_update_value", path="$.a.b", value=7)), '+{"a": {"b": 7}}'),
    "YAML": (plan_of(_edit("docs/conf.yaml", type="yaml_update", path="$.a.b", value=7)), "+  b: 7"),
    "rules": (
        _with_rule(type="json_schema", path="docs/data.json", schema_file="docs/schema.json"),
        "docs/schema.json",
    ),
    "rows": (plan_of(_sql(query="SELECT name FROM cities", connection="open", save_results_to="docs/r.csv")), "Bern"),
    "a query file": (plan_of(_sql(query_file="docs/q.sql", connection="open", save_results_to="docs/r.csv")), "Bern"),
    "changed rows": (plan_of(_sql(query_file="docs/write.sql", connection="open")), '"rows_changed": 1'),
    "SQL that fails": (plan_of(_sql(query_file="docs/broken.sql", connection="open")), "nowhere"),
    "rows that are expected": (
        plan_of(
            _doc(),
            rules=[
                {"type": "sql_expect", "query": "SELECT size FROM cities", "expected": [[9]]} | {"connection": "open"}
            ],
        ),
        "WOULD_FAIL",
    ),
    "a fitting hash": (plan_of(_doc() | {"expected_hash_before": digest_of(DOCS["docs/a.md"])}), "-two\n+2"),
}
"""A plan that the agent may read as a whole, and a part of what it then sees."""


def _made(folder: Path, number: int) -> World:
    outside = (FIRST, SECOND)[number]
    world = World(folder, {**outside, **DOCS, **HIDDEN[number]}, (2, 9)[number], READ)
    docs = world.root / "docs"
    (docs / "link.md").symlink_to("../notes.txt")
    (docs / "folder").symlink_to("..")
    os.link(world.root / "bytes.bin", docs / "hard.md")
    return world


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    folder = tmp_path_factory.mktemp("readers")
    first, second = _made(folder / "first", 0), _made(folder / "second", 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(admission, "MAX_IN_WINDOW", 10_000)  # the agent of these tests proposes more than 30 in an hour
        yield first, second
    first.close()
    second.close()


def _read(world: World, proposal_id: str, who: Who | None = None) -> dict[str, Any]:
    found = world.ask("GET", f"/v1/plans/{proposal_id}/preview", who=who)
    assert found.status == 200, found.body
    return dict(found.tree["document"])


def _finished(world: World) -> None:
    """All previews are computed, and so much later that an agent is shown them."""
    assert world.site.desk.plans.finish_previews(60)
    world.end_turns()


def _withdraw(world: World, proposal_id: str) -> None:
    assert world.ask("POST", f"/v1/plans/{proposal_id}/cancel", {}).status == 200


def _entries(world: World, kind: str) -> list[tuple[str | None, dict[str, Any]]]:
    query = "SELECT actor, payload FROM ledger_entries WHERE kind = ? ORDER BY seq"
    with world.site.workspace.store.reading() as connection:
        return [(actor, json.loads(payload)) for actor, payload in connection.rows(query, (kind,))]


# --- what is not named stays withheld ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PLANS)
def test_plans_on_other_files_are_answered_as_without_the_capability(worlds: Worlds, name: str) -> None:
    check_all_views(worlds, PLANS[name], refused=name.startswith("refused"), key=f"plain-{list(PLANS).index(name)}")


@pytest.mark.parametrize("name", BORDER)
def test_a_plan_that_is_not_readable_as_a_whole_is_withheld(worlds: Worlds, name: str) -> None:
    check_all_views(worlds, BORDER[name], refused=name.startswith("refused"), key=f"border-{list(BORDER).index(name)}")


@pytest.mark.parametrize("name", [name for name in BORDER if not name.startswith("refused")])
def test_the_answer_is_the_same_before_and_after_the_preview_is_stored(worlds: Worlds, name: str) -> None:
    """Otherwise the time until then would depend on the files that are withheld."""
    for world in worlds:
        made = world.propose(BORDER[name])
        first = world.told("GET", f"/v1/plans/{made}/preview")
        _finished(world)
        assert world.told("GET", f"/v1/plans/{made}/preview") == first
        assert (first[0], json.loads(first[1])["document"]["status"]) == (200, "WITHHELD")
        assert name in SENT_IT or SECRET not in first[1]
        _withdraw(world, made)


def test_lists_and_events_are_the_same(worlds: Worlds) -> None:
    answers = []
    for world in worlds:
        told = []
        with listening(world.site, world.token) as stream:
            made = [world.propose(BORDER[name]) for name in ("credential: edited", "beside a pattern", "a pipeline")]
            _finished(world)
            told += [world.told("GET", f"/v1/plans/{each}/preview") for each in made]
            told.append(world.told("GET", "/v1/plans?state=PENDING"))
            for each in made:
                _withdraw(world, each)
            for event in stream.events():
                data = json.loads(event.get("data", "{}"))
                if data.get("payload") is None and "id" in event:
                    data.pop("id", None)
                    told.append((0, world.neutral(json.dumps([event["event"], data], sort_keys=True))))
                if "voided" in event.get("event", "") and made[-1] in event.get("data", ""):
                    break
        answers.append(told)
    assert answers[0] == answers[1]
    assert not any(PREVIEW_READ in each for _, each in answers[0]), "no agent is told that it was recorded"


def test_answers_of_mcp_and_of_the_command_line_are_the_same(
    worlds: Worlds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("credential: edited", "beside an edit of JSON", "protected: beside", "a query file outside", "rename in")
    answers = []
    for world in worlds:
        monkeypatch.setenv("REMIT_STATE", world.site.workspace.environ["REMIT_STATE"])
        token = world.token.headers["Authorization"].split()[1]
        told = []
        with talking(over_http(f"{world.site.url}/mcp", token)) as talk:
            for name in names:
                made = world.propose(BORDER[name])
                _finished(world)
                told.append(talk.call("preview_plan", plan=json.loads(BORDER[name])).model_dump_json())
                told.append(talk.call("read_plan_preview", proposal_id=made).model_dump_json())
                told.append(talk.read(f"remit://diffs/{made}").model_dump_json())
                (tmp_path / "plan.json").write_bytes(BORDER[name])
                for given in (["--proposal", made], ["--proposal", made, "--json"], [str(tmp_path / "plan.json")]):
                    ran = CliRunner().invoke(
                        main, ["preview", *given, "-C", str(world.root)], env={"REMIT_TOKEN": token}
                    )
                    assert "Traceback" not in ran.output
                    told.append(f"{ran.exit_code} {ran.stdout} {ran.stderr}")
                _withdraw(world, made)
        answers.append([world.neutral(each) for each in told])
    assert answers[0] == answers[1]


# --- what is named is shown -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHOWN)
def test_a_readable_plan_is_shown_as_people_see_it(worlds: Worlds, name: str) -> None:
    plan, part = SHOWN[name]
    answers = []
    for world in worlds:
        made = world.propose(plan)
        _finished(world)
        document, for_people = _read(world, made), _read(world, made, world.approver)
        answers.append(world.neutral(json.dumps(document, indent=0)))
        assert (document["inputs"], document["digest"], document["config_digest"], document["pipelines"]) == (None,) * 4
        same = {*AgentReadPreview.model_fields} - {*NOT_COMPARED}
        assert {each: document[each] for each in same} == {each: for_people[each] for each in same}
        databases = [file for file in for_people["files"] if file["path"].endswith(".duckdb")]
        assert document["files"] == [file for file in for_people["files"] if file not in databases]
        assert bool(databases) is (name == "changed rows")
        assert part in json.dumps(document, ensure_ascii=False) or part in "".join(
            file["diff"] for file in document["files"]
        )
        AgentProposalPreview.from_tree({"proposal_id": made, "document": document}, source="the answer")
        _withdraw(world, made)
    assert answers[0] == answers[1], "what is outside of docs does not matter"


# --- what is recorded, and what is not computed -----------------------------------------------------------------------


def test_the_answer_to_a_proposal_and_a_preview_of_a_plan_do_not_wait_or_compute(worlds: Worlds) -> None:
    world = worlds[0]
    plan = json.loads(SHOWN["rows"][0])
    before = world.site.workspace.ledger.transactions
    told = world.ask("POST", "/v1/plans/preview", plan).tree
    assert (told["status"], told["problems"], told["sql"][0]["rows"]) == ("WITHHELD", None, None)
    assert world.site.workspace.ledger.transactions == before + 1, "the record, and nothing else"


def test_a_token_without_the_capability_sees_nothing_of_the_same_proposal(worlds: Worlds) -> None:
    world = worlds[0]
    made = world.propose(SHOWN["an edit"][0])
    _finished(world)
    assert _read(world, made)["status"] == "READY"
    assert _read(world, made, world.site.agent("bot", "plan.propose"))["status"] == "WITHHELD"
    for paths, connections, status in (
        (("docs/*.md",), None, "READY"),
        (("docs/a.md",), None, "READY"),
        (("docs/b.md",), None, "WITHHELD"),
        (("*.md",), None, "WITHHELD"),
        (("docs",), None, "WITHHELD"),
        (("docs/**/x",), None, "WITHHELD"),
        (("**",), None, "READY"),
        (None, ("open", "duckdb"), "WITHHELD"),
    ):
        reader = world.site.agent("bot", "plan.read", paths=paths, connections=connections)
        assert _read(world, made, reader)["status"] == status, paths
        assert world.ask("POST", "/v1/plans", {"plan": json.loads(SHOWN["an edit"][0])}, who=reader).status == 403
    other = world.site.agent("other", "plan.read", paths=("**",))
    assert world.ask("GET", f"/v1/plans/{made}/preview", who=other).status == 404
    _withdraw(world, made)


def test_a_preview_of_another_configuration_is_withheld(worlds: Worlds, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection of the same name could be another database since."""
    world = worlds[0]
    made = world.propose(SHOWN["changed rows"][0])
    _finished(world)
    assert _read(world, made)["status"] != "WITHHELD"
    config = world.root / "remit.yaml"
    before = config.read_text()
    tree = json.loads(before)
    tree["connections"]["open"]["path"] = "data/shop.duckdb"
    try:
        config.write_text(json.dumps(tree))
        assert _read(world, made)["status"] == "WITHHELD"
    finally:
        config.write_text(before)
    _withdraw(world, made)


def test_after_the_run_an_agent_sees_of_it_what_it_saw_before(worlds: Worlds) -> None:
    """`plan.read` widens the preview alone."""
    answers = []
    for world in worlds:
        world.site.project.write("docs/run.md", "one\n")
        made = world.propose(plan_of(replace("a", "docs/run.md", "one", "1"), plan_id="run"))
        _finished(world)
        world.approve(made)
        envelope = world.ask("GET", f"/v1/plans/{made}").tree["envelope_id"]
        told = [world.told("POST", f"/v1/plans/{made}/apply", {}, Prefer="wait=30")]
        assert json.loads(told[0][1])["state"] == "APPLIED"
        told += [world.told("GET", f"/v1/plans/{made}{view}") for view in ("", "/report", "/undo")]
        told += [world.told("GET", f"/v1/runs/{envelope}{view}") for view in ("", "/report")]
        report = json.loads(told[2][1])
        assert (report["change_log"]["changes"], report["report"]["duration_ms"]) == (None, None)
        answers.append(told)
    assert answers[0] == answers[1]


# --- the record -------------------------------------------------------------------------------------------------------


def test_every_preview_that_an_agent_asks_for_is_recorded(
    worlds: Worlds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = worlds[0]
    moved, world.site.clock.offset = world.site.clock.offset, timedelta(0)  # commands have the machine's clock
    agent = world.site.agent("recorded", "plan.propose", "plan.execute_preview", "plan.read", **READ)
    world.site.clock.offset = moved
    token = agent.headers["Authorization"].split()[1]
    monkeypatch.setenv("REMIT_STATE", world.site.workspace.environ["REMIT_STATE"])
    plan = SHOWN["a query file"][0]
    (tmp_path / "plan.json").write_bytes(plan)

    def recorded() -> list[dict[str, Any]]:
        return [payload for actor, payload in _entries(world, PREVIEW_READ) if actor == "agent:recorded"]

    made = world.ask("POST", "/v1/plans", {"plan": json.loads(plan)}, who=agent).tree["proposal_id"]
    assert recorded() == []
    world.ask("GET", f"/v1/plans/{made}/preview", who=agent)
    _finished(world)
    world.ask("GET", f"/v1/plans/{made}/preview", who=agent)
    world.ask("POST", "/v1/plans/preview", json.loads(plan), who=agent)
    with talking(over_http(f"{world.site.url}/mcp", token)) as talk:
        talk.ok("preview_plan", plan=json.loads(plan))
        assert talk.ok("read_plan_preview", proposal_id=made)["document"]["status"] == "READY"
        talk.read(f"remit://diffs/{made}")
    for given in (["--proposal", made], [str(tmp_path / "plan.json")]):
        ran = CliRunner().invoke(main, ["preview", *given, "-C", str(world.root)], env={"REMIT_TOKEN": token})
        assert ran.exit_code == 0, ran.output
    assert "Bern" not in json.dumps(recorded())
    shown = [(each["proposal_id"], each["shown"], each.get("paths"), each.get("connections")) for each in recorded()]
    stored = (made, "stored preview", ["docs/r.csv", "docs/q.sql"], ["open"])
    text = (None, "own text", None, None)
    assert shown[1:] == [stored, text, text, stored, stored, stored, text]
    assert shown[0] in [stored, (made, "own text", None, None)]
    assert all(each["token_jti"] for each in recorded())
    ran = CliRunner().invoke(
        main, ["preview", str(tmp_path / "plan.json"), "-C", str(world.root)], env={"REMIT_AGENT": "someone"}
    )
    assert ran.exit_code == 0, ran.output
    actor, payload = _entries(world, PREVIEW_READ)[-1]
    assert actor is None
    assert (payload["token_jti"], payload["shown"]) == (None, "own text")


def test_an_agent_that_asks_again_and_again_does_not_let_the_ledger_grow(worlds: Worlds) -> None:
    world = worlds[0]
    agent = world.site.agent("again", "plan.propose", "plan.read", **READ)
    plan = json.loads(SHOWN["an edit"][0])
    for _ in range(120):
        assert world.ask("POST", "/v1/plans/preview", plan, who=agent).status == 200
    singles = [payload for actor, payload in _entries(world, PREVIEW_READ) if actor == "agent:again"]
    counts = [payload["count"] for actor, payload in _entries(world, COUNTED_READS) if actor == "agent:again"]
    assert (len(singles), counts) == (MAX_SINGLES, [1, 10, 100])
