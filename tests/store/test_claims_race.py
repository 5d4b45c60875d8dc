"""Idempotency claims: one winner, whoever races; one outcome, for everybody and for ever."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

import remit
from remit.core.errors import Reason, RefusedError
from remit.core.ids import system_clock
from remit.store.claims import ClaimAcquired, ClaimCompleted, ClaimHeld, ClaimKey, claim, find_claim, finish_claim
from remit.store.connection import Connection, GuardedTableError, Store
from remit.store.migrations_runner import migrate
from remit.store.postgresql import PostgresStore
from remit.store.sqlite import SqliteStore
from tests.store.claim_racer import AT, SCHEMA

ROUNDS = 1_000
RACER = Path(__file__).with_name("claim_racer.py")
KEY = ClaimKey("tenant", "task", "one")
DIGEST = "sha256:" + "a" * 64
OTHER_DIGEST = "sha256:" + "b" * 64


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty, migrated store is."""
    if request.param == "postgresql":
        url: str = request.getfixturevalue("postgres_url")
        migrate(PostgresStore(url, SCHEMA), system_clock)
        return url
    file = tmp_path / "store.sqlite3"
    migrate(SqliteStore.create(file), system_clock)
    return str(file)


@pytest.fixture
def store(place: str) -> Store:
    return PostgresStore(place, SCHEMA) if place.startswith("postgresql:") else SqliteStore(Path(place))


@pytest.fixture
def connection(store: Store) -> Iterator[Connection]:
    with closing(store.connect()) as connection:
        yield connection


def committed_claim(
    connection: Connection, key: ClaimKey = KEY, digest: str = DIGEST
) -> ClaimAcquired | ClaimHeld | ClaimCompleted:
    connection.begin(write=True)
    found = claim(connection, key, digest, AT)
    connection.commit()
    return found


def won(connection: Connection) -> ClaimAcquired:
    found = committed_claim(connection)
    assert isinstance(found, ClaimAcquired)
    return found


def start(stack: ExitStack, name: str, place: str) -> "subprocess.Popen[str]":
    racer = subprocess.Popen(
        [sys.executable, str(RACER), name, place, str(ROUNDS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(Path(remit.__file__).parents[1])},
    )
    stack.enter_context(racer)
    stack.callback(racer.kill)
    return racer


def hear(racer: "subprocess.Popen[str]") -> str:
    assert racer.stdout is not None
    return racer.stdout.readline().rstrip("\n")


def race(place: str) -> list[list[tuple[str, str | None]]]:
    """Both set off together in each round, and in turns one is told a moment before the other."""
    with ExitStack() as stack:
        racers = [start(stack, name, place) for name in ("first", "second")]
        assert [hear(racer) for racer in racers] == ["ready", "ready"]
        for number in range(ROUNDS):
            for racer in racers if number % 2 else reversed(racers):
                assert racer.stdin is not None
                racer.stdin.write("\n")
                racer.stdin.flush()
            assert [hear(racer) for racer in racers] == ["done", "done"]
        told = [json.loads(hear(racer)) for racer in racers]
        assert [racer.wait(timeout=30) for racer in racers] == [0, 0]
    return [[(saw, result) for saw, result in rounds] for rounds in told]


@pytest.mark.req("EI-12", "AC-08")
def test_two_processes_claim_one_thousand_keys_and_each_has_one_winner(place: str, store: Store) -> None:
    said: dict[str, str | None] = {}
    wins: Counter[int] = Counter()
    losers: Counter[str] = Counter()
    for number, pair in enumerate(zip(*race(place), strict=True)):
        assert [saw for saw, _ in pair].count("ClaimAcquired") == 1, f"task-{number}: {pair}"
        winner = 0 if pair[0][0] == "ClaimAcquired" else 1
        saw, learned = pair[1 - winner]
        said[f"task-{number}"] = pair[winner][1]
        assert learned == (pair[winner][1] if saw == "ClaimCompleted" else None)
        wins[winner] += 1
        losers[saw] += 1
    assert wins.total() == losers.total() == ROUNDS
    assert set(losers) <= {"ClaimHeld", "ClaimCompleted"}
    assert min(wins[0], wins[1]) > 0, f"they never raced: {wins}"

    with store.reading() as reading:
        stored: dict[str, str] = dict(reading.rows("SELECT key, result FROM claims WHERE state = 'DONE'"))
        found = [find_claim(reading, ClaimKey("tenant", "task", key), DIGEST) for key in said]
    assert stored == said, "what the winner stored is there, to the byte"
    assert all(isinstance(done, ClaimCompleted) and done.result == said[done.key.key] for done in found)


@pytest.mark.req("EI-12")
def test_a_second_claim_learns_that_the_first_is_running_and_then_its_outcome(connection: Connection) -> None:
    mine = won(connection)
    assert committed_claim(connection) == ClaimHeld(KEY)
    connection.begin(write=True)
    finish_claim(connection, mine, "the result \x7f é", AT)
    connection.commit()
    assert committed_claim(connection) == committed_claim(connection) == ClaimCompleted(KEY, "the result \x7f é")


def test_a_finished_claim_cannot_be_finished_again(connection: Connection) -> None:
    mine = won(connection)
    finish_claim(connection, mine, "first", AT)
    with pytest.raises(RefusedError, match="no longer holds the claim") as refused:
        finish_claim(connection, mine, "second", AT)
    assert refused.value.reason is Reason.IDEMPOTENCY_CONFLICT
    assert find_claim(connection, KEY, DIGEST) == ClaimCompleted(KEY, "first")


def test_a_stale_token_cannot_finish(connection: Connection) -> None:
    mine = won(connection)
    stale = ClaimAcquired(KEY, "0" * 32)
    with pytest.raises(RefusedError, match="no longer holds the claim"):
        finish_claim(connection, stale, "late", AT)
    assert find_claim(connection, KEY, DIGEST) == ClaimHeld(KEY)
    finish_claim(connection, mine, "in time", AT)
    assert find_claim(connection, KEY, DIGEST) == ClaimCompleted(KEY, "in time")


def test_a_claim_that_was_never_made_cannot_be_finished(connection: Connection) -> None:
    with pytest.raises(RefusedError, match="no longer holds the claim"):
        finish_claim(connection, ClaimAcquired(KEY, "0" * 32), "made up", AT)
    assert find_claim(connection, KEY, DIGEST) is None


@pytest.mark.parametrize("finished", [False, True])
def test_the_same_key_for_another_request_is_refused(connection: Connection, finished: bool) -> None:  # noqa: FBT001 - a parameter of the test
    mine = won(connection)
    if finished:
        finish_claim(connection, mine, "result", AT)
    connection.begin(write=True)
    with pytest.raises(RefusedError, match="already used for a different request") as refused:
        claim(connection, KEY, OTHER_DIGEST, AT)
    connection.rollback()
    assert refused.value.reason is Reason.IDEMPOTENCY_CONFLICT
    assert "result" not in str(refused.value)
    with pytest.raises(RefusedError):
        find_claim(connection, KEY, OTHER_DIGEST)
    assert committed_claim(connection) == (ClaimCompleted(KEY, "result") if finished else ClaimHeld(KEY))


def test_keys_of_other_tenants_and_scopes_are_other_keys(connection: Connection) -> None:
    won(connection)
    for key in (ClaimKey("other", "task", "one"), ClaimKey("tenant", "plan", "one"), ClaimKey("tenant", "task", "two")):
        assert isinstance(committed_claim(connection, key, OTHER_DIGEST), ClaimAcquired)


def test_a_claim_rolled_back_leaves_nothing(connection: Connection) -> None:
    connection.begin(write=True)
    lost = claim(connection, KEY, DIGEST, AT)
    assert isinstance(lost, ClaimAcquired)
    connection.rollback()
    assert find_claim(connection, KEY, DIGEST) is None
    again = committed_claim(connection, digest=OTHER_DIGEST)
    assert isinstance(again, ClaimAcquired)
    assert again.token != lost.token
    with pytest.raises(RefusedError, match="no longer holds the claim"):
        finish_claim(connection, lost, "from the dead", AT)


def test_an_outcome_rolled_back_leaves_the_claim_running(connection: Connection) -> None:
    mine = won(connection)
    connection.begin(write=True)
    finish_claim(connection, mine, "never", AT)
    connection.rollback()
    assert committed_claim(connection) == ClaimHeld(KEY)


def test_the_database_itself_keeps_a_finished_claim(connection: Connection) -> None:
    finish_claim(connection, won(connection), "result", AT)
    for attempt in (
        "UPDATE claims SET result = 'other'",
        "UPDATE claims SET state = 'CLAIMED', result = NULL",
        "DELETE FROM claims",
    ):
        with pytest.raises(GuardedTableError):
            connection.execute(attempt)
    assert find_claim(connection, KEY, DIGEST) == ClaimCompleted(KEY, "result")


def test_a_token_cannot_be_guessed_from_another(connection: Connection) -> None:
    tokens = set()
    for number in range(50):
        found = committed_claim(connection, ClaimKey("tenant", "task", f"k{number}"))
        assert isinstance(found, ClaimAcquired)
        tokens.add(found.token)
    assert len(tokens) == 50
    assert all(len(token) == 32 for token in tokens)
