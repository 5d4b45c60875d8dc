"""Each way in which a goal can fail has its reason code, always the same; nothing is dispatched or changed."""

import json
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from remit.contracts.goals.goal import AgentExecutionOutcome
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.goals.actions import runner as goal_hands
from remit.goals.actions.runner import GoalActionRunner
from remit.goals.service import Reply
from remit.goals.simulation_executor import SimulationExecutor
from remit.goals.slo import Rate, rolling_error_rate
from remit.goals.trace import trace_goal
from remit.plans.service import Plans
from tests.goals.goal_office import ARCHIVE, PING, SIMULATIONS, TENANT, Office, goal_bytes
from tests.support.task_workspace import MovableClock

CLAIMS: Final = "SELECT count(*) FROM claims"
REFUSALS: Final = "SELECT count(*) FROM ledger_entries WHERE kind = 'agent.refused'"
STEPS: Final = "SELECT count(*) FROM agent_execution_ledger"


class Cell:
    """One office for many failures: each must leave it as it was."""

    def __init__(self, office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
        self.office = office
        self.calls: list[Any] = []
        self.asked: Reply = office.ask("archive the note one")
        self.tree: dict[str, Any] = json.loads(goal_bytes(self.asked.goal))
        self.numbers = iter(range(10_000))
        real = SimulationExecutor.dispatch

        def dispatch(executor: SimulationExecutor, envelope: Any, attempt: int = 1) -> Any:
            self.calls.append(envelope)
            return real(executor, envelope, attempt)

        monkeypatch.setattr(SimulationExecutor, "dispatch", dispatch)

    def run(self, **changes: Any) -> AgentExecutionOutcome:
        return self.office.goals.run(json.dumps({**self.tree, **changes}).encode())

    def new(self, packet: dict[str, Any] | None = None, **changes: Any) -> AgentExecutionOutcome:
        """The same goal under a correlation of its own, its packet changed."""
        name = f"new-{next(self.numbers)}"
        found = {**self.tree["sim_finder_packet"], "correlation_id": name, **(packet or {})}
        return self.run(**{"correlation_id": name, "sim_finder_packet": found, **changes})

    def require_untouched(self) -> None:
        assert self.calls == []
        assert self.office.archived() == []
        assert self.office.notes() == ["one", "three", "two"]
        assert self.office.count(CLAIMS) == 0


@pytest.fixture
def cell(office: Office, monkeypatch: pytest.MonkeyPatch) -> Cell:
    return Cell(office, monkeypatch)


def of(simulation_id: str, score: float | None = None) -> dict[str, Any]:
    return {"simulation_id": simulation_id, "score": score}


# --- the packet -----------------------------------------------------------------------------------------------------

PACKETS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "two that are equal": (
        "CANDIDATES_UNRESOLVED",
        {"candidates": [of("archive-note", 0.5), of("copy-form", 0.5)]},
    ),
    "nobody's simulation": ("SIMULATION_NOT_REGISTERED", {"candidates": [of("transfer-money", 1.0)]}),
    "another goal's packet": ("PACKET_INVALID", {"correlation_id": "another"}),
    "another catalogue's packet": ("PACKET_INVALID", {"catalog_snapshot_ref": "sha256:" + 64 * "0"}),
    "a field too few": ("FIELDS_INVALID", {"fields": {}}),
    "a field too many": ("FIELDS_INVALID", {"fields": {"note": "one", "as": "root"}}),
    "a field that leads out": ("FIELDS_INVALID", {"fields": {"note": "../../etc/passwd"}}),
    "a field of another type": ("FIELDS_INVALID", {"fields": {"note": ["one"]}}),
    "a field that is nothing": ("FIELDS_INVALID", {"fields": {"note": None}}),
}


@pytest.mark.req("AC-12", "AC-02")
def test_what_is_wrong_with_a_packet_has_its_code(cell: Cell) -> None:
    for name, (code, packet) in PACKETS.items():
        for _ in range(2):
            outcome = cell.new(packet)
            assert (name, outcome.reason_code) == (name, code)
            assert outcome.simulation_outcome is None
            assert outcome.user_visible_text
    cell.require_untouched()
    assert cell.office.count(f"{STEPS} WHERE event = 'REFUSED'") == 2 * len(PACKETS)


@pytest.mark.req("AC-12", "AC-04")
def test_no_simulation_found_escalates(cell: Cell) -> None:
    reply = cell.office.ask("order a pizza")
    assert reply.outcome.reason_code == "SIMULATION_MISSING"
    assert cell.office.events(reply.goal.correlation_id) == ["ESCALATED"]
    cell.require_untouched()


# --- the person -----------------------------------------------------------------------------------------------------


@pytest.mark.req("AC-12", "AC-05")
def test_a_confirmation_that_is_missing_ambiguous_refused_or_late_has_its_code(cell: Cell, clock: MovableClock) -> None:
    office = cell.office
    assert cell.asked.outcome.reason_code == "CONFIRMATION_REQUIRED"
    assert cell.run().reason_code == "CONFIRMATION_REQUIRED"
    assert cell.run(confirm_state={"status": "AWAITING"}).reason_code == "CONFIRMATION_REQUIRED"
    assert office.answer(cell.asked, "okay").outcome.reason_code == "CONFIRMATION_AMBIGUOUS"
    refused = office.ask("archive the note two")
    assert office.answer(refused, "no").outcome.reason_code == "CONFIRMATION_REFUSED"
    late = office.ask("archive the note three")
    clock.offset = timedelta(minutes=10, seconds=1)
    assert office.answer(late, "yes").outcome.reason_code == "CONFIRMATION_EXPIRED"
    assert office.answer(late, "yes").outcome.reason_code == "CONFIRMATION_EXPIRED"
    cell.require_untouched()


@pytest.mark.req("AC-12", "AC-05")
def test_a_confirmation_that_comes_with_the_goal_is_not_accepted(cell: Cell) -> None:
    """Nobody can have read what he says yes to."""
    outcome = cell.new(confirm_state={"status": "ANSWERED", "answer": "yes"})
    assert outcome.reason_code == "CONFIRMATION_REQUIRED"
    cell.require_untouched()


# --- access and state -----------------------------------------------------------------------------------------------


@pytest.mark.req("AC-12", "AC-06")
def test_access_denied_unapproved_or_inactive_has_its_code(cell: Cell) -> None:
    office = cell.office
    assert office.done("archive the note one", user="eve").outcome.reason_code == "ACCESS_SCOPE_VIOLATION"
    assert office.done("archive the note one", user="nobody").outcome.reason_code == "ACCESS_SCOPE_VIOLATION"
    assert office.done("copy the form as new", user="leo").outcome.reason_code == "ACCESS_AP_REQUIRED"
    assert office.done("are you there", tenant="globex").outcome.reason_code == "SIMULATION_NOT_ACTIVE"
    office.retire("archive-note")
    assert office.done("archive the note one").outcome.reason_code == "SIMULATION_NOT_ACTIVE"
    cell.require_untouched()


@pytest.mark.req("AC-12", "AC-14")
def test_an_impactful_simulation_without_a_rollback_has_its_own_reason_code(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loader refuses such a catalogue. Were it to let one through, the gate would not."""
    monkeypatch.setattr("remit.goals.catalogue.catalogue.check_definitions", lambda *_: ())
    office.write_catalogue({**ARCHIVE, "rollback": None}, *SIMULATIONS[1:])
    office.promote("archive-note")
    reply = office.ask("archive the note one")
    assert reply.outcome.reason_code == "ROLLBACK_PLAN_MISSING"
    office.write_catalogue(ARCHIVE, *SIMULATIONS[2:])  # it names one that is not there
    office.promote("archive-note")
    assert office.done("archive the note one").outcome.reason_code == "ROLLBACK_PLAN_MISSING"
    assert office.archived() == []


# --- the same correlation -------------------------------------------------------------------------------------------


@pytest.mark.req("AC-12", "AC-08")
def test_a_correlation_stands_for_one_goal(cell: Cell) -> None:
    packet = cell.tree["sim_finder_packet"]
    others: dict[str, Any] = {
        "user_id": "eve",
        "thread_id": "another",
        "raw_user_utterance": "archive the note two",
        "normalized_intent": "another",
        "language_tag": "de",
        "idempotency_key": "another",
        "sim_finder_packet": {**packet, "fields": {"note": "two"}},
    }
    before = cell.office.events(cell.asked.goal.correlation_id)
    for name, value in others.items():
        answered = {"status": "ANSWERED", "answer": "yes"}
        outcome = cell.run(**{name: value, "confirm_state": answered})
        assert (name, outcome.reason_code) == (name, "IDEMPOTENCY_VIOLATION")
        assert outcome.step_id is None
    assert cell.office.count(REFUSALS) == len(others)
    assert cell.office.events(cell.asked.goal.correlation_id) == before
    cell.require_untouched()
    # And the goal itself goes on as if nobody had tried.
    assert cell.office.answer(cell.asked, "yes").outcome.reason_code == "SIMULATION_SUCCEEDED"


# --- the step's time ------------------------------------------------------------------------------------------------

SLOW: Final[dict[str, Any]] = {
    **PING,
    "id": "count",
    "phrases": {"en": ["count it all"]},
    "timeout_seconds": 1,
    "binding": {
        "type": "sql",
        "connection": "shop",
        "query": "SELECT count(*) AS n FROM range(100000000000) t(a)",
        "expect_results": True,
    },
}


class Shop(Office):
    """With a database that its queries read."""

    def write_config(self, **settings: Any) -> None:
        connection = {"type": "duckdb", "path": "shop.duckdb", "read_only": True}
        super().write_config(connections={"shop": connection}, **settings)

    def write_policy(self, text: str) -> None:
        super().write_policy(text)
        duckdb = pytest.importorskip("duckdb")
        with duckdb.connect(str(self.root / "shop.duckdb")) as made:
            made.execute("CREATE TABLE t AS SELECT 1 AS a")


@pytest.mark.req("AC-12")
@pytest.mark.timeout(30)
def test_a_step_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    shop = Shop(tmp_path, simulations=(*SIMULATIONS, SLOW))
    reply = shop.ask("count it all")
    assert reply.outcome.reason_code == "STEP_TIMEOUT"
    assert shop.events(reply.goal.correlation_id) == ["PLANNED", "ACCESS_ALLOWED", "REFUSED"]
    assert shop.answer(reply, None).outcome.reason_code == "STEP_TIMEOUT"
    assert shop.count(CLAIMS) == 0
    shop.close()


@pytest.mark.req("AC-34")
def test_a_failure_before_the_dispatch_counts_in_the_error_rate(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that cannot be previewed, and a machine that cannot prepare the action."""
    assert desk.done("are you there").outcome.reason_code == "SIMULATION_SUCCEEDED"
    assert desk.done("archive the note missing").outcome.reason_code == "SIMULATION_REFUSED"

    def broken(*_: Any) -> Any:
        raise EnvironmentFailureError(Reason.SANDBOX_UNAVAILABLE, "no sandbox")

    monkeypatch.setattr(GoalActionRunner, "prepare", broken)
    reply = desk.done("copy the form as new")
    assert reply.outcome.reason_code == "SIMULATION_REFUSED"
    assert desk.events(reply.goal.correlation_id)[-1] == "REFUSED"
    desk.done("archive the note one", user="eve")  # denied by the policy, and no failure
    with desk.workspace.store.reading() as connection:
        rate = rolling_error_rate(connection, (TENANT,), desk.workspace.clock() + timedelta(seconds=1))
    assert rate == Rate(2, 3)


@pytest.mark.req("AC-12")
def test_a_step_whose_time_is_over_while_it_runs_leaves_nothing(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = GoalActionRunner.run
    monkeypatch.setattr(GoalActionRunner, "run", lambda runner, prepared, _: real(runner, prepared, 0.0))
    for words in ("archive the note one", "copy the form as new"):
        reply = office.done(words)
        assert reply.outcome.reason_code == "STEP_TIMEOUT"
        assert office.events(reply.goal.correlation_id)[-2:] == ["DISPATCHED", "FAILED"]
        again = office.answer(reply, None)
        assert again.outcome.simulation_outcome == reply.outcome.simulation_outcome
    assert office.archived() == []
    assert not (office.base / "new.txt").exists()
    assert office.count(f"{STEPS} WHERE event = 'DISPATCHED'") == 2


@pytest.mark.req("AC-12")
@pytest.mark.parametrize("takes, code", [(19.0, "SIMULATION_SUCCEEDED"), (19.75, "STEP_TIMEOUT")])
def test_what_making_it_ready_took_counts(
    desk: Office, monkeypatch: pytest.MonkeyPatch, takes: float, code: str
) -> None:
    """Of twenty seconds, on a clock of its own: so many on copies, and half a second in earnest."""
    now = [1_000.0]
    monkeypatch.setattr(goal_hands, "time", SimpleNamespace(monotonic=lambda: now[0]))
    approve, apply = Plans.approve, Plans.apply

    def approved_late(*given: Any, **more: Any) -> Any:
        approved = approve(*given, **more)
        now[0] += takes
        return approved

    def applied_late(*given: Any) -> Any:
        now[0] += 0.5
        return apply(*given)

    monkeypatch.setattr(Plans, "approve", approved_late)
    monkeypatch.setattr(Plans, "apply", applied_late)
    assert desk.done("archive the note one").outcome.reason_code == code
    assert desk.archived() == (["one"] if code == "SIMULATION_SUCCEEDED" else [])


# --- the engine itself ----------------------------------------------------------------------------------------------


def _no_policy_file(office: Office) -> None:
    (office.root / "access.cedar").unlink()


def _unreadable_policy(office: Office) -> None:
    (office.root / "access.cedar").unlink()
    (office.root / "access.cedar").mkdir()


def _policy_elsewhere(office: Office) -> None:
    (office.root / "access.cedar").unlink()
    (office.folder / "lax.cedar").write_text('@id("all") permit (principal, action, resource);')
    (office.root / "access.cedar").symlink_to(office.folder / "lax.cedar")


def _no_catalogue(office: Office) -> None:
    (office.root / "simulations.json").unlink()


BREAKS: Final[dict[str, tuple[str, Any]]] = {
    "an empty policy": ("ACCESS_SCOPE_VIOLATION", lambda office: office.write_policy("")),
    "half a policy": ("ACCESS_SCOPE_VIOLATION", lambda office: office.write_policy("permit (")),
    "a policy of another schema": (
        "ACCESS_SCOPE_VIOLATION",
        lambda office: office.write_policy('@id("x") permit (principal, action == Action::"fly", resource);'),
    ),
    "a policy without a name": (
        "ACCESS_SCOPE_VIOLATION",
        lambda office: office.write_policy("permit (principal, action, resource);"),
    ),
    "a policy that fails as it runs": (
        "ACCESS_SCOPE_VIOLATION",
        lambda office: office.write_policy(
            '@id("x") permit (principal, action, resource) when { 9223372036854775807 + 1 > 0 };'
        ),
    ),
    "no policy file": ("ACCESS_SCOPE_VIOLATION", _no_policy_file),
    "a policy that is no file": ("ACCESS_SCOPE_VIOLATION", _unreadable_policy),
    "a policy that leads out": ("ACCESS_SCOPE_VIOLATION", _policy_elsewhere),
    "no policies at all": (
        "ACCESS_SCOPE_VIOLATION",
        lambda office: office.write_config(policies={"cedar_files": []}),
    ),
    "no tenants": ("ACCESS_SCOPE_VIOLATION", lambda office: office.write_config(tenants={})),
    "no users": (
        "ACCESS_SCOPE_VIOLATION",
        lambda office: office.write_config(tenants={"acme": {"users": []}}),
    ),
    "half a catalogue": (
        "SIMULATION_NOT_REGISTERED",
        lambda office: (office.root / "simulations.json").write_text("{"),
    ),
    "no catalogue file": ("SIMULATION_NOT_REGISTERED", _no_catalogue),
    "a catalogue without ways back": (
        "SIMULATION_NOT_REGISTERED",
        lambda office: office.write_catalogue({**ARCHIVE, "rollback": None}),
    ),
}


@pytest.mark.req("AC-12", "AC-06")
def test_an_engine_that_fails_lets_no_goal_through(cell: Cell) -> None:
    office = cell.office
    kept = {name: (office.root / name).read_bytes() for name in ("access.cedar", "simulations.json", "remit.yaml")}
    pings = json.loads(goal_bytes(office.ask("are you there").goal))
    cell.calls.clear()
    before = office.count("SELECT count(*) FROM ledger_entries")
    claims = office.count(CLAIMS)
    for name, (code, break_it) in BREAKS.items():
        break_it(office)
        # One that needs no yes, so that nothing but the engine stands in its way.
        packet = {**pings["sim_finder_packet"], "correlation_id": name}
        outcomes = [
            office.goals.run(json.dumps({**pings, "correlation_id": name, "sim_finder_packet": packet}).encode())
            for _ in range(2)
        ]
        assert [(name, one.reason_code) for one in outcomes] == 2 * [(name, code)]
        assert office.count("SELECT count(*) FROM ledger_entries") > before
        before = office.count("SELECT count(*) FROM ledger_entries")
        for file, content in kept.items():
            path = office.root / file
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            path.unlink(missing_ok=True)
            path.write_bytes(content)
    assert cell.calls == []
    assert office.count(CLAIMS) == claims
    assert office.done("are you there").outcome.reason_code == "SIMULATION_SUCCEEDED"


@pytest.mark.req("AC-12")
def test_a_catalogue_that_breaks_while_a_goal_waits_stops_it(cell: Cell) -> None:
    (cell.office.root / "simulations.json").write_text("{")
    assert cell.office.answer(cell.asked, "yes").outcome.reason_code == "SIMULATION_NOT_REGISTERED"
    cell.require_untouched()
    cell.office.write_catalogue(*SIMULATIONS)
    assert cell.office.answer(cell.asked, "yes").outcome.reason_code == "SIMULATION_SUCCEEDED"


@pytest.mark.req("AC-12")
def test_a_tenant_that_is_not_configured_gets_no_chain_of_its_own(cell: Cell) -> None:
    reply = cell.office.ask("are you there", tenant="made-up")
    assert reply.outcome.reason_code == "ACCESS_SCOPE_VIOLATION"
    assert cell.office.count("SELECT count(*) FROM ledger_entries WHERE tenant_id = 'made-up'") == 0
    assert cell.office.count(REFUSALS) == 1
    cell.require_untouched()


# --- bytes that are no goal -----------------------------------------------------------------------------------------


def hostile(tree: dict[str, Any]) -> dict[str, bytes]:
    """A good goal, made bad in one way each."""
    good = json.dumps(tree)
    packet = tree["sim_finder_packet"]

    def with_(**changes: Any) -> bytes:
        return json.dumps({**tree, **changes}).encode()

    def with_packet(**changes: Any) -> bytes:
        return with_(sim_finder_packet={**packet, **changes})

    def question(attempt: int) -> dict[str, Any]:
        shared = {name: value for name, value in packet.items() if name not in {"candidates", "fields"}}
        return {**shared, "packet_type": "clarify", "question": "Which?", "field": "note", "attempt": attempt}

    needed = set(tree) - {"language_tag"}
    deep: Any = "one"
    for _ in range(40):
        deep = [deep]
    return {
        "nothing": b"",
        "no JSON": b"archive the note one",
        "a list": b"[]",
        "null": b"null",
        "not UTF-8": b"\xff\xfe" + good.encode(),
        "half of it": good.encode()[:-10],
        "something after it": good.encode() + b"{}",
        "an unknown key": with_(approved=True),
        "an unknown key in the packet": with_packet(skip_confirmation=True),
        "an unknown key in the state": with_(confirm_state={"status": "NONE", "confirmed": True}),
        "a key twice": good.replace('{"correlation_id"', '{"user_id": "eve", "correlation_id"', 1).encode(),
        "NaN": good.replace('"attempt_counter": 0', '"attempt_counter": NaN').encode(),
        "Infinity": good.replace('"attempt_counter": 0', '"attempt_counter": Infinity').encode(),
        "a number too large": with_packet(fields={"note": 2**60}),
        "a text for a number": with_(attempt_counter="0"),
        "a boolean for a number": with_(attempt_counter=True),
        "a number below": with_(attempt_counter=-1),
        "a number for a text": with_(user_id=7),
        "no user": with_(user_id=""),
        "a user with a line break": with_(user_id="mia\nroot"),
        "a text too long": with_(raw_user_utterance="x" * 10_001),
        "huge": with_(raw_user_utterance="x" * (6 << 20)),
        "deep": with_packet(fields={"note": deep}),
        "very deep": good.encode().replace(b'"one"', b"[" * 5_000 + b"]" * 5_000, 1),
        "too many fields": with_packet(fields={f"f{number}": 1 for number in range(1_001)}),
        "no candidates": with_packet(candidates=[]),
        "a score above": with_packet(candidates=[of("archive-note", 1.5)]),
        "another kind of packet": with_packet(packet_type="tool"),
        "a packet without a proof": with_packet(proof_ref=""),
        "an answer to nothing": with_(confirm_state={"status": "NONE", "answer": "yes"}),
        "an answer that is none": with_(confirm_state={"status": "ANSWERED"}),
        "a language that is none": with_(language_tag="../en"),
        **{
            f"question {attempt} after {counter}": with_(sim_finder_packet=question(attempt), attempt_counter=counter)
            for attempt, counter in ((1, 1), (2, 0), (3, 1), (1, 1_000))
        },
        **{f"without {name}": json.dumps({k: v for k, v in tree.items() if k != name}).encode() for name in needed},
    }


@pytest.mark.req("AC-01")
def test_a_goal_without_a_language_is_in_english(cell: Cell) -> None:
    """The specification's list of fields has no language."""
    tree = {name: value for name, value in cell.tree.items() if name != "language_tag"}
    packet = {**tree["sim_finder_packet"], "correlation_id": "no-language"}
    raw = json.dumps({**tree, "correlation_id": "no-language", "sim_finder_packet": packet}).encode()
    assert cell.office.goals.run(raw).reason_code == "CONFIRMATION_REQUIRED"
    stored = cell.office.goals.stored_goal("no-language", user="mia", tenant=TENANT)
    assert stored.language_tag == "en"
    outcome = cell.office.goals.answer("no-language", "yes", user="mia", tenant=TENANT).outcome
    assert outcome.reason_code == "SIMULATION_SUCCEEDED"


@pytest.mark.req("AC-03", "AC-01")
def test_the_counter_is_the_number_of_questions_in_the_thread_and_is_kept(cell: Cell) -> None:
    office = cell.office
    first = office.ask("archive the note")
    second = office.ask("which ones are there?", reply_to=first.goal.correlation_id)
    third = office.ask("two", reply_to=second.goal.correlation_id)
    counted = [(each.goal.attempt_counter, each.outcome.attempt_counter) for each in (first, second, third)]
    assert counted == [(0, 1), (1, 2), (2, 2)]
    for each in (first, second, third):
        name = each.goal.correlation_id
        assert office.goals.stored_goal(name, user="mia", tenant=TENANT).attempt_counter == each.goal.attempt_counter
        assert office.goals.read_reply(name, user="mia", tenant=TENANT).outcome.attempt_counter == (
            each.outcome.attempt_counter
        )
        with office.workspace.store.reading() as connection:
            found = trace_goal(connection, lambda: office.workspace.keyring, TENANT, name)
        assert found is not None
        assert found.facts["attempt_counter"] == each.goal.attempt_counter
    another = office.goals.run(goal_bytes(third.goal, attempt_counter=1))
    assert another.reason_code == "IDEMPOTENCY_VIOLATION"  # this id belongs to a goal with two questions before it
    assert office.answer(third).outcome.reason_code == "SIMULATION_SUCCEEDED"


@pytest.mark.req("AC-12", "AC-01")
def test_bytes_that_are_no_goal_are_refused_before_anything_is_recorded(cell: Cell) -> None:
    assert '"attempt_counter": 0' in json.dumps(cell.tree)
    before = cell.office.count("SELECT count(*) FROM ledger_entries")
    for name, raw in hostile(cell.tree).items():
        with pytest.raises(RefusedError) as refused:
            cell.office.goals.run(raw)
        assert refused.value.what, name
        assert len(str(refused.value)) < 2_000, name
    assert cell.office.count("SELECT count(*) FROM ledger_entries") == before
    cell.require_untouched()
    assert cell.office.events(cell.asked.goal.correlation_id, TENANT) == ["PLANNED", "CONFIRMATION_REQUESTED"]
