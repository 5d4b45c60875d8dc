"""The tests' own PostgreSQL server: private, shared by the workers, durable, and gone afterwards."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.support import postgres_server
from tests.support.postgres_server import ServerUnavailableError, find_binaries

USES_A_SERVER = """
import os, pathlib, time, pytest

@pytest.mark.parametrize("turn", [1, 2])
def test_sees_a_server(postgres_admin_url, turn):
    record = pathlib.Path({folder!r}) / os.environ.get("PYTEST_XDIST_WORKER", "alone")
    record.write_text(postgres_admin_url)
    time.sleep({seconds})
"""


def _rows(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(statement.encode()).fetchall()


def _other_pytest(folder: Path, *options: str, seconds: float) -> subprocess.Popen[bytes]:
    """A second pytest run with this project's conftest, whose tests record the server's URL and hold it for a while."""
    (folder / "conftest.py").write_text("from tests.conftest import *\n")
    (folder / "test_it.py").write_text(USES_A_SERVER.format(folder=str(folder), seconds=seconds))
    root = Path(__file__).resolve().parents[2]
    outer = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "REMIT_"))}
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-c", str(root / "pyproject.toml"), *options, "test_it.py"],
        cwd=folder,
        env={**outer, "PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}"},
        stdout=subprocess.DEVNULL,
    )


def _server_directory(record: Path) -> Path:
    return Path(record.read_text().rpartition("host=")[2])


def _wait_until(what: str, holds: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.05)


def test_database_is_fresh_durable_and_utf8(postgres_url: str) -> None:
    assert _rows(postgres_url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(0,)]
    assert _rows(postgres_url, "SHOW fsync") == [("on",)]
    assert _rows(postgres_url, "SHOW server_encoding") == [("UTF8",)]


@pytest.mark.parametrize("turn", [1, 2])
def test_two_tests_never_share_a_database(postgres_url: str, turn: int) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE left_behind (turn int)")
    assert _rows(postgres_url, "SELECT count(*) FROM left_behind") == [(0,)]


@pytest.mark.long
def test_workers_share_one_server_that_is_gone_after_the_run(tmp_path: Path) -> None:
    run = _other_pytest(tmp_path, "-n", "2", seconds=0.5)
    assert run.wait(timeout=90) == 0
    urls = [(tmp_path / worker).read_text() for worker in ("gw0", "gw1")]
    assert urls[0] == urls[1]
    assert not _server_directory(tmp_path / "gw0").exists()


@pytest.mark.long
def test_server_dies_with_a_test_run_that_is_killed(tmp_path: Path) -> None:
    run = _other_pytest(tmp_path, seconds=600)
    record = tmp_path / "alone"
    try:
        _wait_until("the server is up", lambda: record.exists() and bool(record.read_text()), seconds=60)
        directory = _server_directory(record)
        server = int((directory / "data/postmaster.pid").read_text().splitlines()[0])
        run.send_signal(signal.SIGKILL)
        run.wait()
        _wait_until("the files are gone", lambda: not directory.exists(), seconds=20)
        _wait_until("the server has ended", lambda: not Path(f"/proc/{server}").exists(), seconds=20)
    finally:
        run.kill()


def test_without_server_binaries_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServerUnavailableError, match="apt-get install postgresql"):
        find_binaries(tmp_path)


def test_newest_version_is_chosen_by_number_not_by_name(tmp_path: Path) -> None:
    for version in ("9.6", "15", "17"):
        (tmp_path / version / "bin").mkdir(parents=True)
        (tmp_path / version / "bin/initdb").touch()
    assert postgres_server.find_binaries(tmp_path) == tmp_path / "17/bin"
