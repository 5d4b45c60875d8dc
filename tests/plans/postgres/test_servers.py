"""A server that stops, comes back, or is long over a COMMIT: files and rows agree in the end, and until then it is said
that they wait.
"""

import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from remit.contracts.plans.outcome import PlanOutcome
from remit.core.errors import EnvironmentFailureError
from remit.execution.engine import IncompleteError
from remit.plans.engines.postgres import PostgresEngine
from tests.plans.postgres.postgres_project import Store, mixed
from tests.plans.postgres.test_interrupted import killed, recovered
from tests.plans.project import at_phase, ran, refused
from tests.plans.test_recovery import APPLY
from tests.support.child_process import Fault
from tests.support.postgres_server import OwnServer


@pytest.fixture(scope="module")
def server() -> Iterator[OwnServer]:
    with TemporaryDirectory(prefix="remit-own-server-") as folder:
        Path(folder).chmod(0o755)
        made = OwnServer(Path(folder))
        made.start()
        yield made
        made.stop()


@pytest.fixture
def own_store(server: OwnServer, tmp_path: Path) -> Iterator[Store]:
    """On a server that the test may stop."""
    server.ensure_running()
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS own WITH (FORCE)")
        connection.execute("CREATE DATABASE own")
    made = Store(tmp_path, server.url.replace("/postgres?", "/own?"))
    yield made
    made.close()
    server.ensure_running()
    made.drop_role()


@pytest.mark.req("PX-18")
def test_a_server_that_is_not_there_is_a_refusal_without_its_password(own_store: Store, server: OwnServer) -> None:
    envelope = own_store.approve(mixed()).canonical()
    server.stop()
    _, message = refused(own_store.workspace.apply(envelope))
    assert own_store.where in message
    assert own_store.password not in message
    assert own_store.tree() == own_store.before[0]
    server.start()
    assert ran(own_store.workspace.apply(envelope)).status.status == "SUCCESS"
    assert own_store.state() == "after"


@pytest.mark.req("PX-20", "PX-28")
@pytest.mark.parametrize("phase", ["RUNNING", "VERIFYING", "REPORTING"])
def test_files_are_undone_when_the_server_stops_in_the_middle(own_store: Store, server: OwnServer, phase: str) -> None:
    envelope = own_store.approve(mixed()).canonical()

    def restart() -> None:
        server.stop()
        server.start()

    outcome = ran(own_store.workspace.apply(envelope, on_status=at_phase(phase, restart)))
    assert outcome.status.status == "ROLLED_BACK"
    assert own_store.state() == "before"


@pytest.fixture
def stops_when_noted(server: OwnServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The server stops after it was noted that COMMIT will be sent, and before it is."""

    def reach(point: str) -> None:
        if point == "elsewhere.noted":
            server.stop()

    monkeypatch.setattr("remit.plans.apply.open_transactions.reach", reach)
    # The server does not come back meanwhile.
    monkeypatch.setattr(PostgresEngine, "fate", functools.partialmethod(PostgresEngine.fate, patience=1.0))
    yield
    monkeypatch.undo()


@pytest.mark.req("PX-20", "PX-28")
@pytest.mark.usefixtures("stops_when_noted")
def test_a_plan_with_an_unknown_commit_stays_open_until_recovery_finishes_it(
    own_store: Store, server: OwnServer
) -> None:
    envelope = own_store.approve(mixed()).canonical()
    with pytest.raises(IncompleteError) as told:
        own_store.workspace.apply(envelope)
    assert "it is unknown whether the database committed its part of the plan" in told.value.what
    assert "remit recover" in told.value.next_step
    (report,) = own_store.workspace.recover()
    assert report.outcome is None
    assert isinstance(report.problem, EnvironmentFailureError)
    assert report.problem.where == own_store.where
    server.start()
    assert recovered(own_store).status.status == "ROLLED_BACK"
    assert own_store.state() == "before"


@pytest.mark.long
@pytest.mark.req("PX-28")
@pytest.mark.usefixtures("stops_when_noted")
def test_a_later_transaction_is_not_taken_for_the_one_that_was_lost(own_store: Store, server: OwnServer) -> None:
    """A server that dies would give the number of what was open to the next one, had it not been made to last."""
    with pytest.raises(IncompleteError):
        own_store.workspace.apply(own_store.approve(mixed()).canonical())
    server.start()
    for number in range(50):
        own_store.ask(f"INSERT INTO log VALUES ('{number}')")
    own_store.before = (own_store.before[0], own_store.rows())
    assert recovered(own_store).status.status == "ROLLED_BACK"
    assert own_store.state() == "before"


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("point", ["elsewhere.rows_kept", "elsewhere.noted", "elsewhere.committed"])
def test_a_server_that_was_restarted_before_recovery_still_knows(
    own_store: Store, server: OwnServer, tmp_path: Path, point: str
) -> None:
    killed(own_store, tmp_path, Fault(point))
    server.stop()
    server.start()
    outcome = recovered(own_store)
    assert outcome.status.status == ("SUCCESS" if point == "elsewhere.committed" else "ROLLED_BACK")
    assert own_store.state() == ("after" if point == "elsewhere.committed" else "before")


@pytest.mark.req("PX-28")
def test_recovery_needs_the_server_only_where_a_commit_was_noted(
    own_store: Store, server: OwnServer, tmp_path: Path
) -> None:
    killed(own_store, tmp_path, Fault("elsewhere.rows_kept"))
    server.stop()
    (report,) = own_store.workspace.recover()
    assert isinstance(report.outcome, PlanOutcome), report.problem
    server.start()
    assert own_store.state() == "before"


@pytest.mark.req("PX-28")
def test_files_and_rows_agree_after_a_kill_while_the_server_commits(
    own_store: Store, server: OwnServer, tmp_path: Path
) -> None:
    """COMMIT waits for a standby that there is not: it is durable, and nobody was told."""
    kept = tmp_path / "envelope.json"
    kept.write_bytes(own_store.approve(mixed()).canonical())

    def waits() -> bool:
        return bool(server.ask("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"))

    with server.waiting_for_a_standby(own_store.role):
        process = subprocess.Popen(
            [sys.executable, "-c", APPLY.replace("acknowledge(", "print("), str(own_store.root), str(kept)],
            env={**os.environ, **own_store.environ},
            stdout=subprocess.DEVNULL,
        )
        _wait_until(lambda: waits() or process.poll() is not None)
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        outcome = recovered(own_store)
    assert outcome.status.status == "SUCCESS"
    assert own_store.state() == "after"
    assert own_store.workspace.rollback("last").status == "EXECUTED"
    assert own_store.state() == "before"


def _wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
