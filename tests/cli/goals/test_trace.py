"""The chain of a goal: every link, with its place in the ledger; and what is missing is marked, not passed over."""

import sqlite3

import pytest

from remit.goals.history_nodes import HistoryNode
from remit.goals.trace import trace_goal
from tests.cli.goals.conftest import Shell
from tests.goals.goal_office import ANN, Office


def traced(office: Office, correlation_id: str, tenant: str = "acme") -> HistoryNode:
    with office.workspace.store.reading() as connection:
        found = trace_goal(connection, lambda: office.workspace.keyring, tenant, correlation_id)
    assert found is not None
    return found


def kinds(node: HistoryNode) -> list[str]:
    return [child.kind for child in node.children]


def every(node: HistoryNode) -> list[HistoryNode]:
    return [node, *(each for child in node.children for each in every(child))]


@pytest.mark.req("AC-11", "AC-28")
def test_every_way_that_a_goal_can_go_has_its_chain(shell: Shell) -> None:
    office = shell.office
    ways = {
        "clarified": (office.ask("archive the note", correlation_id="clarified"), ["packet", "outcome"]),
        "missing": (office.ask("order a pizza", correlation_id="missing"), ["packet", "outcome"]),
        "refused": (office.ask("?!", correlation_id="refused"), ["packet", "outcome"]),
        "read": (
            office.ask("are you there", correlation_id="read"),
            ["packet", "plan", "access", "decision", "dispatch", "outcome"],
        ),
        "denied": (
            office.done("archive the note one", user="eve", correlation_id="denied"),
            ["packet", "plan", "question", "confirmation", "access", "outcome"],
        ),
        "no": (
            office.done("archive the note one", "no", correlation_id="no"),
            ["packet", "plan", "question", "confirmation", "outcome"],
        ),
    }
    for name, (_, expected) in ways.items():
        found = traced(office, name)
        assert [kind for kind in kinds(found) if kind != "confirmed"] == expected, name
        assert list(found.problems()) == [], name
        assert found.facts["correlation_id"] == name
        assert found.facts["user_id"] in {"mia", "eve"}


@pytest.mark.req("AC-11")
def test_each_link_names_the_others_and_its_place_and_the_bound_action_stands_below_the_dispatch(shell: Shell) -> None:
    office = shell.office
    done = office.done("copy the form as new", user="leo", correlation_id="g-1")
    office.goals.approve("g-1", tenant="acme", who=ANN, approved=True, reason="fine with me")
    assert office.answer(done, None).outcome.reason_code == "SIMULATION_SUCCEEDED"
    root = traced(office, "g-1")
    links = {child.kind: child for child in root.children}
    assert links["confirmation"].facts["accepted_token"] == "yes"
    assert links["confirmation"].facts["confirm_lexicon_version_ref"].startswith("confirm-lexicon-")
    assert links["access"].facts["policies"] == ["leo-asks-first"]
    assert links["approval"].facts == {"approved": True, "by": "os:ann", "reason": "fine with me"}
    assert links["plan"].facts["rollback_plan_ref"].startswith("undo-copy@sha256:")
    dispatch = links["dispatch"]
    assert dispatch.facts["access_decision_ref"] == root.children[kinds(root).index("decision") - 1].ref
    assert dispatch.facts["confirmation_parse_proof_ref"] == links["confirmation"].ref
    action = dispatch.children[-1]
    assert (action.kind, action.facts["state"], action.tenant_id) == ("action", "ended", "default")
    below = [entry.facts["kind"] for entry in action.children]
    assert below == ["task.intent", "lease.issued", "task.noted", "task.outcome"]
    places = [node.seq for node in root.children if node.seq is not None]
    assert places == sorted(places)
    assert all(node.at for node in every(root) if node.seq is not None)


def test_a_rollback_and_the_goal_that_it_reverses_name_each_other(shell: Shell) -> None:
    office = shell.office
    done = office.done("archive the note one", correlation_id="g-1")
    asked = office.goals.rollback("g-1", user="mia", tenant="acme", correlation_id="g-2")
    office.answer(asked)
    original, back = traced(office, done.goal.correlation_id), traced(office, "g-2")
    assert original.children[-1].facts["by"] == "g-2"
    assert back.children[0].facts["takes_back"] == "g-1"
    (dispatch,) = [child for child in back.children if child.kind == "dispatch"]
    assert [entry.facts["kind"] for entry in dispatch.children[-1].children] == ["rollback.intent", "rollback.outcome"]


def test_an_interrupted_dispatch_shows_the_action_that_had_started(shell: Shell) -> None:
    shell.ask_goal("copy the form as new", "g-1")
    killed = shell("ask", "--continue", "g-1", "--confirm", "yes", REMIT_FAULT="simulation.ran")
    assert killed.code < 0
    root = traced(shell.office, "g-1")
    assert root.facts["stands"] == "DISPATCHED"
    assert root.children[-1].kind == "dispatch"
    action = root.children[-1].children[-1]
    assert action.facts["action"].startswith("task/goal-")
    assert action.facts["state"] == "ended"
    assert action.children[-1].facts["kind"] == "task.outcome"
    assert list(root.problems()) == []
    (report,) = shell("recover", "--json").document
    assert (report["kind"], report["state"]) == ("simulation", "finished")
    assert report["result"]["audit_refs"] == [action.facts["action"]]
    assert traced(shell.office, "g-1").facts["stands"] == "SUCCEEDED"
    assert shell("ask", "--continue", "g-1").code == 0  # what came of it


def tampered(office: Office, *statements: str) -> None:
    """As somebody with write access to the database file would: with the guards taken off."""
    database = sqlite3.connect(office.workspace.state.database)
    for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        database.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        assert database.execute(statement).rowcount > 0
    database.commit()
    database.close()


LOST_POLICY = "DELETE FROM agent_documents WHERE kind = 'policy'"
HOLES = {
    LOST_POLICY: "policy_snapshot_ref: a document that a decision was made from is missing",
    "DELETE FROM agent_documents WHERE kind = 'goal'": "a document that a decision was made from is missing",
    "UPDATE agent_documents SET body = '{}' WHERE kind = 'packet'": "was changed",
    "DELETE FROM agent_execution_ledger WHERE event = 'CONFIRMED'": "its row is missing in agent_execution_ledger",
    "UPDATE agent_execution_ledger SET simulation_id = 'ping' WHERE event = 'PLANNED'": "its row has other content",
    "DELETE FROM agent_execution_access_decision_ledger": "its row is missing or has other content",
    "UPDATE ledger_entries SET payload = '{}' WHERE kind = 'agent.confirmation'": "no signed head covers this entry",
    "DELETE FROM ledger_entries WHERE kind = 'agent.step' AND seq = 6": "this row has no entry in the ledger",
    "DELETE FROM ledger_entries WHERE kind = 'agent.access'": "this row has no entry in the ledger",
    "DELETE FROM ledger_entries WHERE kind = 'plan.outcome'": "its outcome is missing in the ledger",
    "DELETE FROM claims WHERE scope = 'simulation'": "the claim of the dispatch is missing",
}


@pytest.mark.req("AC-11")
def test_what_is_missing_or_was_changed_is_marked_where_it_should_be(shell: Shell) -> None:
    office = shell.office
    office.done("archive the note one", correlation_id="g-1")
    assert list(traced(office, "g-1").problems()) == []
    connection = office.workspace.store.connect()
    for statement, expected in HOLES.items():
        connection.execute("BEGIN")
        for (name,) in list(connection.rows("SELECT name FROM sqlite_master WHERE type = 'trigger'")):
            connection.execute(f"DROP TRIGGER {name}")
        assert connection.execute(statement) > 0
        found = trace_goal(connection, lambda: office.workspace.keyring, "acme", "g-1")
        connection.rollback()
        assert found is not None
        assert any(expected in problem for problem in found.problems()), (statement, list(found.problems()))
        assert "dispatch" in kinds(found)  # one hole hides nothing else
    connection.close()


def test_the_tree_is_complete_at_any_width_and_a_missing_part_exits_with_1(shell: Shell) -> None:
    shell.office.done("archive the note one", correlation_id="g-1")
    wide = shell("ledger", "trace", "g-1")
    assert wide.code == 0
    assert wide.out.splitlines()[0].endswith("g-1 of mia, en: “archive the note one”, state SUCCEEDED")
    assert "└─ outcome" in wide.out
    assert "plan.outcome: SUCCESS, 1 of 1 action" in wide.out
    narrow = shell("ledger", "trace", "g-1", COLUMNS="60")
    assert max(len(line) for line in narrow.out.splitlines()) <= 75  # ids stay whole
    words = [word for word in narrow.out.replace("│", " ").split() if word not in {"├─", "└─"}]
    assert words == [word for word in wide.out.replace("│", " ").split() if word not in {"├─", "└─"}]
    tampered(shell.office, LOST_POLICY)
    holed = shell("ledger", "trace", "g-1")
    assert holed.code == 1
    assert "! policy_snapshot_ref" in holed.out
    assert "1 finding; see also: remit ledger verify, remit ledger replay g-1 --tenant acme" in holed.out


def test_a_correlation_without_a_goal_shows_its_entries(shell: Shell) -> None:
    shell.office.workspace.issue_lease(
        b'{"task_id": "t-1", "capability_id": "NO_EFFECT", "inputs": {}, "constraints": {"reversible": true}}'
    )
    found = shell("ledger", "trace", "t-1", "--json")
    assert found.code == 0
    assert [child["facts"]["kind"] for child in found.document["trace"]["children"]] == ["lease.issued"]
    assert shell("ledger", "trace", "t-2").code == 2


# --- replay ---------------------------------------------------------------------------------------------------------


@pytest.mark.req("AC-13")
def test_a_decision_replays_under_the_rules_of_its_time(shell: Shell) -> None:
    shell.office.done("archive the note one", correlation_id="g-1")
    shell.office.write_policy('@id("nobody")\nforbid (principal, action, resource);\n')
    shell.office.retire("archive-note")
    shown = shell("ledger", "replay", "g-1")
    assert shown.code == 0
    assert "agrees: 4 decisions replayed" in shown.out


@pytest.mark.req("AC-13")
def test_a_goal_that_cannot_be_replayed_stops_no_other_and_is_reported_with_its_code(shell: Shell) -> None:
    for name in ("g-1", "g-2", "g-3"):
        shell.office.ask("order a pizza", correlation_id=name)
    tampered(
        shell.office,
        "DELETE FROM agent_documents WHERE kind = 'goal' AND body LIKE '%g-2%'",
        "UPDATE agent_execution_ledger SET reason_code = 'ACCESS_ALLOWED' WHERE correlation_id = 'g-3'",
    )
    every_one = shell("ledger", "replay", "--all", "--tenant", "acme", "--json")
    assert every_one.code == 1
    told = every_one.document
    assert (told["goals"], told["disagree"], told["code"]) == (3, 2, "REPLAY_INVARIANT_FAILED")
    assert [each["correlation_id"] for each in told["disagreeing"]] == ["g-2", "g-3"]
    shown = shell("ledger", "replay", "--all", "--tenant", "acme")
    assert (shown.code, "disagrees (REPLAY_INVARIANT_FAILED): 2 goals" in shown.out) == (1, True)
    one = shell("ledger", "replay", "g-3", "--json")
    assert (one.code, one.document["code"]) == (1, "REPLAY_INVARIANT_FAILED")
    assert "REPLAY_INVARIANT_FAILED" in shell("ledger", "replay", "g-2").out
    assert shell("ledger", "replay", "g-1").code == 0


def test_replay_needs_one_goal_or_all(shell: Shell) -> None:
    assert shell("ledger", "replay").code == 2
    assert shell("ledger", "replay", "g-1", "--all").code == 2
    assert shell("ledger", "replay", "never", "--tenant", "acme").code == 1
