"""What the core can never do: write more than its own record, change a schema, promote, grant, run on, be set off."""

import ast
import sqlite3
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from remit.contracts.goals.dispatch import DispatchEnvelope, SimulationOutcome
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.goals import core
from remit.goals.recording import record_decision
from remit.store.sqlite import SqliteConnection
from scripts.agent_guardrails_sources import Sources
from tests.goals.goal_office import TENANT, Office, goal_bytes

ROOT: Final = Path(__file__).resolve().parent.parent.parent
SOURCES: Final = ROOT / "src" / "remit"
OWN_RECORD: Final = frozenset(
    {
        "agent_documents",
        "agent_execution_access_decision_ledger",
        "agent_execution_confirmation_ledger",
        "agent_execution_current",
        "agent_execution_ledger",
        "ledger_entries",
        "ledger_heads",
    }
)
_ROWS: Final = {sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE}
_SCHEMA: Final = {
    getattr(sqlite3, name)
    for name in dir(sqlite3)
    if name.startswith(("SQLITE_CREATE_", "SQLITE_DROP_", "SQLITE_ALTER_")) or name == "SQLITE_ATTACH"
}


class Seen:
    """Every table that SQLite itself says is about to be written, triggers included; and every change of a schema."""

    def __init__(self) -> None:
        self.tables: set[str] = set()
        self.schema: set[str] = set()

    def __call__(self, action: int, table: str | None, *_: str | None) -> int:
        if action in _ROWS:
            self.tables.add(str(table))
        elif action in _SCHEMA:
            self.schema.add(str(table))
        return sqlite3.SQLITE_OK


@pytest.fixture
def seen(desk: Office, monkeypatch: pytest.MonkeyPatch) -> Iterator[Seen]:
    """A workspace that is opened anew, so that no statement was made ready before anybody looked."""
    found = Seen()
    real = SqliteConnection.__init__

    def watched(connection: SqliteConnection, *given: Any, **named: Any) -> None:
        real(connection, *given, **named)
        connection._raw.set_authorizer(found)  # noqa: SLF001 - where every statement passes

    monkeypatch.setattr(SqliteConnection, "__init__", watched)
    desk.close()
    desk.workspace = desk.opened()
    yield found
    monkeypatch.undo()


class Counting:
    """In the executor's place: the core with nothing behind it."""

    def __init__(self) -> None:
        self.seen: list[DispatchEnvelope] = []

    def dispatch(self, envelope: DispatchEnvelope, attempt: int = 1) -> SimulationOutcome:  # noqa: ARG002
        self.seen.append(envelope)
        return SimulationOutcome(payload={}, reason_code="SIMULATION_SUCCEEDED", audit_refs=(), proof_refs=())


def whole_day(office: Office) -> list[str]:
    """Goals that end in every way there is."""
    ended = [
        office.done(words, user=user).outcome.reason_code
        for words, user in (
            ("archive the note one", "mia"),
            ("archive the note two", "eve"),
            ("copy the form as new", "leo"),
            ("are you there", "leo"),
            ("archive the note", "mia"),
            ("order a pizza", "mia"),
            ("do not archive the note one", "mia"),
        )
    ]
    asked = office.ask("archive the note three")
    ended += [office.answer(asked, said).outcome.reason_code for said in ("okay", "no")]
    ended.append(office.goals.run(goal_bytes(asked.goal, user_id="eve")).reason_code)
    ended.append(office.done("are you there", tenant="globex").outcome.reason_code)
    ended.append(office.ask("are you there", tenant="made-up").outcome.reason_code)
    assert all(one.agrees for one in office.goals.replay(asked.goal.correlation_id, tenant=TENANT))
    assert office.goals.intake(TENANT)
    return ended


def tree_of(office: Office) -> dict[str, bytes]:
    found = (path for folder in (office.root, office.base) for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path): path.read_bytes() for path in found}


@pytest.mark.req("AC-18", "AC-24")
def test_the_core_writes_nothing_but_its_own_record(desk: Office, seen: Seen) -> None:
    executor = Counting()
    desk.goals.core = replace(desk.goals.core, executor=executor)
    before = tree_of(desk)
    ended = set(whole_day(desk))
    assert {
        "SIMULATION_SUCCEEDED",
        "ACCESS_SCOPE_VIOLATION",
        "ACCESS_AP_REQUIRED",
        "CLARIFY_REQUIRED",
        "SIMULATION_MISSING",
        "CONFIRMATION_AMBIGUOUS",
        "CONFIRMATION_REFUSED",
        "IDEMPOTENCY_VIOLATION",
        "SIMULATION_NOT_ACTIVE",
    } <= ended
    assert len(executor.seen) == 2
    assert seen.tables == OWN_RECORD
    assert seen.schema == set()
    assert tree_of(desk) == before


@pytest.mark.req("AC-18", "AC-24")
def test_even_the_executor_writes_but_the_claim_more(desk: Office, seen: Seen) -> None:
    whole_day(desk)
    assert desk.archived() == ["one"]
    assert seen.tables == OWN_RECORD | {"claims", "plan_previews"}
    assert seen.schema == set()


@pytest.mark.req("AC-18")
def test_a_core_that_writes_to_other_tables_would_be_seen(
    desk: Office, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = record_decision

    def also_elsewhere(batch: Any, *given: Any) -> Any:
        batch.store.execute("DELETE FROM claims WHERE key = 'nobody''s'")
        return real(batch, *given)

    monkeypatch.setattr(core, "record_decision", also_elsewhere)
    desk.ask("archive the note one")
    assert "claims" in seen.tables - OWN_RECORD


# --- it always ends -------------------------------------------------------------------------------------------------


@pytest.mark.req("AC-18")
def test_a_goal_that_others_always_move_on_ends_in_a_refusal(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Any] = []

    def somebody_was_faster(*given: Any) -> Any:
        tried.append(given)
        raise RefusedError(Reason.TRANSITION_INVALID, "another caller has advanced this goal")

    monkeypatch.setattr(core, "record_decision", somebody_was_faster)
    with pytest.raises(EnvironmentFailureError) as ended:
        desk.ask("are you there")
    assert ended.value.reason is Reason.IN_PROGRESS
    assert len(tried) == core.MAX_ROUNDS <= 10
    assert desk.count("SELECT count(*) FROM claims") == 0


WALKING: Final = {"values.py", "tokenizer.py", "order.py"}
"""Along a text of bounded length, or along at most twenty steps."""


@pytest.mark.req("AC-18")
def test_no_loop_of_the_core_is_without_an_end_of_its_own() -> None:
    endless = [
        f"{path.name}:{node.lineno}: while {ast.unparse(node.test)}"
        for path in core_files()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.While) and (path.name not in WALKING or isinstance(node.test, ast.Constant))
    ]
    assert endless == []


# --- it promotes nothing, and nobody sets it off --------------------------------------------------------------------


def core_files() -> list[Path]:
    return sorted(SOURCES / module.name for found in (Sources(ROOT).core(), Sources(ROOT).goals()) for module in found)


def imports_of(path: Path) -> set[str]:
    """Every module that a file names in an import, and every name that it takes out of one."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {str(node.module), *(f"{node.module}.{one.name}" for one in node.names)}
    return found


@pytest.mark.req("AC-18")
def test_the_core_cannot_promote_or_grant() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][-1]
    layers = [layer.replace("(", "").replace(")", "").split(" : ") for layer in contract["layers"]]
    above = {room: number for number, layer in enumerate(layers) for room in layer}
    assert above["promotion"] < above["core"], "what stands above cannot be imported"
    for path in core_files():
        assert not imports_of(path) & {"remit.goals.promotion", "remit.store.grants", "remit.crypto.keyring"}, path


@pytest.mark.req("AC-24")
def test_nothing_sets_a_goal_off_by_itself() -> None:
    """There is no automatic trigger, by that name or any: no clock, no thread and no signal of the goal door's own,
    and only what a person starts has goals to ask.
    """
    setting_off = {"sched", "asyncio", "signal", "multiprocessing", "concurrent", "subprocess", "_thread"}
    for path in core_files():
        text = path.read_text()
        assert not {name.partition(".")[0] for name in imports_of(path)} & setting_off, path
        assert not [word for word in ("threading.Timer", "threading.Thread", "Timer(", "Thread(") if word in text], path
    for path in sorted(SOURCES.rglob("*.py")):
        assert "auto_micro" not in path.read_text().lower().replace("-", "_"), path
    asking = {
        str(path.relative_to(SOURCES)).partition("/")[0]
        for path in sorted(SOURCES.rglob("*.py"))
        if "goals" in path.read_text() and any(name.startswith("remit.goals.service") for name in imports_of(path))
    }
    assert asking <= {"workspace", "cli", "services", "testing"}


NOT_FOR_A_FINDER: Final = (
    *("remit.ledger", "remit.store", "remit.approvals", "remit.execution", "remit.plans"),
    *("remit.goals.access", "remit.goals.confirmation", "remit.goals.actions", "remit.goals.promotion"),
)


@pytest.mark.req("AC-24")
def test_what_was_learnt_could_only_ever_rank() -> None:
    """The Finder knows neither ledger nor policy nor executor, and no gate knows the Finder."""
    for path in sorted((SOURCES / "goals" / "finder").glob("*.py")):
        reached = {name for name in imports_of(path) if name.startswith("remit.")}
        assert not [name for name in reached if name.startswith(NOT_FOR_A_FINDER)], path
        deciding = {f"remit.goals.{room}" for room in ("gates", "core", "simulation_executor", "planner", "recording")}
        assert not reached & deciding, path
    for room in ("gates", "core", "simulation_executor", "planner", "replay"):
        assert not [name for name in imports_of(SOURCES / "goals" / f"{room}.py") if "goals.finder" in name], room
