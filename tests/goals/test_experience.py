"""What the Finder learns: from accepted matches, for the ranking alone, and always the same from the same ledger."""

import ast
from pathlib import Path
from typing import Any

import pytest

import remit
from remit.core.canonical import digest
from remit.goals import experience
from remit.goals.experience import learn, points_for
from remit.goals.finder.finder import EmbeddedFinder, Utterance
from remit.goals.service import Reply
from remit.ledger import goal_queries
from remit.ledger.documents import load_document
from tests.goals.goal_office import ARCHIVE, PING, POLICY, TENANT, TOUCH, UNDO_ARCHIVE, UNDO_COPY, Office

OLD: dict[str, Any] = {**ARCHIVE, "id": "archive-old", "phrases": {"en": ["archive the old note {note}"]}}
NEW: dict[str, Any] = {**ARCHIVE, "id": "archive-new", "phrases": {"en": ["archive the new note {note}"]}}


@pytest.fixture
def shelf(tmp_path: Path, clock: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two simulations that the same words may mean. The Finder learns after every entry."""
    monkeypatch.setattr(experience, "BLOCK", 1)
    simulations = (OLD, NEW, ARCHIVE | {"phrases": {}}, UNDO_ARCHIVE, PING, TOUCH, UNDO_COPY)
    made = Office(tmp_path, clock=clock, simulations=simulations, policy=POLICY)
    for name in ("n1", "n2", "n3"):
        made.write_note(name)
    yield made
    made.close()


def which(office: Office, **changes: Any) -> tuple[str, str]:
    """The outcome of words that are as near to the one as to the other, and the first candidate."""
    reply = office.ask("archive the note n1", **changes)
    packet: Any = reply.goal.sim_finder_packet
    return reply.outcome.reason_code, packet.candidates[0].simulation_id


def proof_of(office: Office, reply: Reply) -> dict[str, Any]:
    with office.workspace.store.reading() as connection:
        return load_document(connection, TENANT, reply.goal.sim_finder_packet.proof_ref)


@pytest.mark.req("AC-24")
def test_only_a_match_that_a_user_confirmed_and_that_succeeded_moves_the_ranking(shelf: Office) -> None:
    assert which(shelf)[0] == "CANDIDATES_UNRESOLVED"
    shelf.ask("archive the new note n2")  # asked, and not confirmed
    shelf.done("archive the new note n2", "no")
    shelf.done("archive the new note n9")  # confirmed, and failed
    shelf.done("archive the new note n2", user="eve")  # denied
    assert which(shelf)[0] == "CANDIDATES_UNRESOLVED"
    accepted = shelf.done("archive the new note n2")
    assert accepted.outcome.reason_code == "SIMULATION_SUCCEEDED"
    assert which(shelf) == ("CONFIRMATION_REQUIRED", "archive-new")  # the user is asked as before
    for simulation in ("archive-old", "archive-new", "undo-archive"):
        shelf.promote(simulation, "globex")
    assert which(shelf, tenant="globex")[0] == "CANDIDATES_UNRESOLVED"  # each tenant has its own ledger
    taken_back = shelf.goals.rollback(accepted.goal.correlation_id, user="mia", tenant=TENANT)
    assert shelf.answer(taken_back).outcome.reason_code == "SIMULATION_SUCCEEDED"
    assert which(shelf)[0] == "CANDIDATES_UNRESOLVED"


@pytest.mark.req("AC-24", "AC-20")
def test_the_proof_names_what_was_learned_and_gives_the_same_packet_again(shelf: Office) -> None:
    shelf.done("archive the new note n2")
    words = "archive the note n1"
    reply = shelf.ask(words)
    proof = proof_of(shelf, reply)
    assert [(each["simulation_id"], each.get("bonus")) for each in proof["considered"]] == [
        ("archive-new", 50),
        ("archive-old", None),
    ]
    shelf.done("are you there")  # it only reads, so no user has confirmed it
    shelf.done("archive the old note n3")
    shelf.done("archive the new note n1")
    goal = reply.goal
    request = Utterance(goal.correlation_id, TENANT, goal.user_id, goal.thread_id, goal.language_tag, words)
    with shelf.workspace.store.reading() as connection:
        catalogue = shelf.goals.rules.catalogue(TENANT, connection)
        then = learn(connection, catalogue, proof["learned_until"])
        now = learn(connection, catalogue, goal_queries.newest_step_seq(connection, TENANT))
    assert dict(then.points) == {"archive-new": 50}
    assert dict(now.points) == {"archive-new": 100, "archive-old": 50}
    again = EmbeddedFinder(bonus=then.points, learned_until=then.until).find_with_proof(request, catalogue)
    assert again == (goal.sim_finder_packet, proof)
    assert digest(again[1]) == goal.sim_finder_packet.proof_ref


@pytest.mark.req("AC-24", "AC-21")
def test_it_is_computed_once_for_each_moment_and_not_for_each_request(
    shelf: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experience, "BLOCK", 100)
    calls: list[int] = []
    real = goal_queries.accepted_matches

    def counted(connection: Any, tenant_id: str, span: tuple[int, int], step_ids: tuple[str, str]) -> Any:
        calls.append(span[1])
        return real(connection, tenant_id, span, step_ids)

    monkeypatch.setattr(experience, "accepted_matches", counted)
    shelf.done("archive the new note n2")
    for _ in range(3):
        assert which(shelf)[0] == "CANDIDATES_UNRESOLVED"  # the next moment has not come
    assert calls == [0]
    while calls == [0]:
        shelf.ask("archive the note n1")
    assert calls == [0, 100]
    assert which(shelf) == ("CONFIRMATION_REQUIRED", "archive-new")
    assert calls == [0, 100]


@pytest.mark.req("AC-24")
def test_the_points_are_bounded_and_a_program_may_set_its_own(shelf: Office) -> None:
    assert [points_for(number) for number in (-1, 0, 1, 2, 3, 4, 511, 512, 10**9)] == [
        *(0, 0, 50, 100, 100, 150),
        *(450, 500, 500),
    ]
    shelf.done("archive the new note n2")
    shelf.goals.finder = EmbeddedFinder(bonus={"archive-old": 70})
    assert which(shelf) == ("CONFIRMATION_REQUIRED", "archive-old")


@pytest.mark.req("AC-24")
def test_nothing_but_the_finder_and_its_service_reads_what_was_learned() -> None:
    package = Path(remit.__file__).parent
    readers = set()
    for file in package.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = {each.name for each in node.names} if isinstance(node, ast.Import | ast.ImportFrom) else set()
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            if module == "remit.goals.experience" or {"experience", "accepted_matches"} & names:
                readers.add(file.relative_to(package).as_posix())
    assert readers == {"goals/service.py", "goals/experience.py"}
