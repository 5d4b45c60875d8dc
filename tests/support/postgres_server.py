"""A private PostgreSQL server for the tests: one for each test run, shared by all of its workers.

It is made from Debian's server binaries in a directory of its own and listens on a Unix socket there, so it meets no
other cluster of the machine. fsync stays on, because durability is what the tests are about. Limit: Linux only.
"""

import fcntl
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg

DEBIAN_BINARIES: Final = Path("/usr/lib/postgresql")
SERVER_ACCOUNT: Final = "postgres"
START_TIMEOUT_SECONDS: Final = 60
WHAT_TO_INSTALL: Final = (
    "No PostgreSQL server to test against. Run `make test` once (it installs the server binaries), or "
    "`apt-get install postgresql`, or set REMIT_TEST_POSTGRES_URL to a server where databases may be created."
)


class ServerUnavailableError(Exception):
    """No server could be started; the text says what to install or where the server's own log ends."""


def find_binaries(debian: Path = DEBIAN_BINARIES) -> Path:
    """The directory with initdb and pg_ctl: Debian's newest version, else whatever PATH offers."""
    versions = sorted((path for path in debian.glob("*/bin/initdb")), key=lambda path: float(path.parts[-3]))
    if versions:
        return versions[-1].parent
    on_path = shutil.which("initdb")
    if on_path is None:
        raise ServerUnavailableError(WHAT_TO_INSTALL)
    return Path(on_path).resolve().parent


def shared_server_url(directory: Path, guarded_pid: int) -> str:
    """Start the server in `directory` unless a sibling worker already did; every caller gets the same URL.

    The server dies with the process `guarded_pid`, however that process ends.
    """
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ready = directory / "url"
        if not ready.exists():
            _start(directory)
            _stop_when_gone(directory, guarded_pid)
            ready.write_text(f"postgresql://{SERVER_ACCOUNT}@/postgres?host={directory}")
        return ready.read_text()


def stop_server(directory: Path) -> None:
    """Stop the server, if one was started, and remove everything it wrote."""
    if (directory / "url").exists():
        _run_as_server_account(directory, "pg_ctl", "stop", "-D", "data", "-m", "immediate")
    shutil.rmtree(directory, ignore_errors=True)


def _start(directory: Path) -> None:
    if os.geteuid() == 0:  # the server refuses to run as root
        try:
            account = pwd.getpwnam(SERVER_ACCOUNT)
        except KeyError as error:
            raise ServerUnavailableError(WHAT_TO_INSTALL) from error
        os.chown(directory, account.pw_uid, account.pw_gid)
    _run_as_server_account(
        directory, "initdb", "-D", "data", "-U", SERVER_ACCOUNT, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"
    )
    _start_made(directory)


def _start_made(directory: Path) -> None:
    options = f"-c listen_addresses='' -c unix_socket_directories='{directory}' -c max_connections=200"
    _run_as_server_account(
        directory, "pg_ctl", "start", "-w", "-t", str(START_TIMEOUT_SECONDS), "-D", "data", "-l", "log", "-o", options
    )


def _run_as_server_account(directory: Path, program: str, *arguments: str) -> None:
    drop = ["setpriv", f"--reuid={SERVER_ACCOUNT}", f"--regid={SERVER_ACCOUNT}", "--clear-groups"]
    command = [*(drop if os.geteuid() == 0 else []), str(find_binaries() / program), *arguments]
    # Files, not pipes: the server inherits them and would keep a pipe open for as long as it lives.
    output = directory / f"{program}.out"
    with output.open("w") as sink:
        done = subprocess.run(command, cwd=directory, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, check=False)
    if done.returncode != 0:
        log = directory / "log"
        details = output.read_text() + (log.read_text() if log.exists() else "")
        raise ServerUnavailableError(f"{program} failed with exit code {done.returncode}:\n{details}")


def _stop_when_gone(directory: Path, guarded_pid: int) -> None:
    """Leave a small process behind that clears up after a test run that was killed."""
    guard = (
        '( tail --pid="$1" -f /dev/null; '
        'test -f "$2/data/postmaster.pid" && kill -QUIT "$(head -n 1 "$2/data/postmaster.pid")"; rm -rf "$2" ) &'
    )
    subprocess.run(
        ["sh", "-c", guard, "guard", str(guarded_pid), str(directory)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        check=True,
    )


class OwnServer:
    """One that a test may stop and start again. `directory` is for others to enter, too."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._is_made = False
        self._is_running = False
        self.url = f"postgresql://{SERVER_ACCOUNT}@/postgres?host={directory}"

    def start(self) -> None:
        if self._is_made:
            _start_made(self._directory)
        else:
            _start(self._directory)
        self._is_made = self._is_running = True

    def stop(self) -> None:
        """As if the power had failed."""
        if self._is_running:
            _run_as_server_account(self._directory, "pg_ctl", "stop", "-D", "data", "-m", "immediate")
        self._is_running = False

    def ensure_running(self) -> None:
        if not self._is_running:
            self.start()

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(query.encode())
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def waiting_for_a_standby(self, role: str) -> Iterator[None]:
        """A COMMIT of this role is durable and does not return, until the block ends or it is terminated."""
        self.ask("ALTER ROLE postgres SET synchronous_commit = local")
        self.ask(f'ALTER ROLE "{role}" SET synchronous_commit = on')
        self.ask("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        self.ask("SELECT pg_reload_conf()")
        try:
            yield
        finally:
            self.ask("ALTER SYSTEM RESET synchronous_standby_names")
            self.ask("SELECT pg_reload_conf()")
