"""What every test may ask for: a fresh PostgreSQL database. And the rule that requirement markers name known ids."""

import itertools
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from remit.crypto import rsa_key_files as token_key_files
from scripts.conformance import read_promises
from tests.support.postgres_databases import drop_free_databases, fresh_database
from tests.support.postgres_server import ServerUnavailableError, shared_server_url, stop_server

# A shell starts what runs in the background with Ctrl-C ignored, and every child of it would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SERVER_DIRECTORY = pytest.StashKey[Path]()
OWNER_PID = pytest.StashKey[int]()
_POLICY_KEYS = 8


def pytest_configure(config: pytest.Config) -> None:
    """The process that collects for itself owns the server's directory; xdist workers are told where it is."""
    told: dict[str, Any] | None = getattr(config, "workerinput", None)
    if told is None:
        # Below /tmp, whatever TMPDIR says: a Unix socket's path may have at most 107 bytes.
        config.stash[SERVER_DIRECTORY] = Path(tempfile.mkdtemp(prefix="remit-pg-", dir="/tmp"))
        config.stash[OWNER_PID] = os.getpid()
    else:
        config.stash[SERVER_DIRECTORY] = Path(told["postgres_directory"])
        config.stash[OWNER_PID] = told["postgres_owner_pid"]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # xdist gives its WorkerController no public type
    node.workerinput["postgres_directory"] = str(node.config.stash[SERVER_DIRECTORY])
    node.workerinput["postgres_owner_pid"] = node.config.stash[OWNER_PID]


def pytest_unconfigure(config: pytest.Config) -> None:
    if os.environ.get("REMIT_TEST_POSTGRES_URL"):
        drop_free_databases()
    if config.stash[OWNER_PID] == os.getpid():
        stop_server(config.stash[SERVER_DIRECTORY])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A marker with a mistyped id would prove nothing: refuse to run with one."""
    known = read_promises().keys()
    for item in items:
        for marker in item.iter_markers("req"):
            unknown = [requirement for requirement in marker.args if requirement not in known]
            if unknown or not marker.args or marker.kwargs:
                raise pytest.UsageError(f"{item.nodeid}: @pytest.mark.req takes known requirement ids, not {unknown}")


@pytest.fixture(scope="session")
def postgres_admin_url(pytestconfig: pytest.Config) -> str:
    """A server where databases may be made: REMIT_TEST_POSTGRES_URL, else a private one. Without either: a failure."""
    given = os.environ.get("REMIT_TEST_POSTGRES_URL")
    if given:
        return given
    try:
        return shared_server_url(pytestconfig.stash[SERVER_DIRECTORY], pytestconfig.stash[OWNER_PID])
    except ServerUnavailableError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
def postgres_url(postgres_admin_url: str) -> Iterator[str]:
    """The URL of an empty database that only this test uses."""
    with fresh_database(postgres_admin_url) as url:
        yield url


@pytest.fixture(scope="session", autouse=True)
def policy_keys_are_made_once() -> Iterator[None]:
    """One takes a quarter of a second. Workspaces take turns with a few that were made as Remit makes them.

    Checking one that is read takes as long: the same bytes are checked once.
    """
    made: list[RSAPrivateKey] = []
    turn = itertools.count()
    read: dict[bytes, Any] = {}

    def next_key(exponent: int, bits: int) -> RSAPrivateKey:
        at = next(turn) % _POLICY_KEYS
        if at == len(made):
            made.append(generate_private_key(exponent, bits))
        return made[at]

    def load(raw: bytes, password: None) -> Any:
        if raw not in read:
            read[raw] = load_pem_private_key(raw, password)
        return read[raw]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(token_key_files, "generate_private_key", next_key)
        patched.setattr(token_key_files, "load_pem_private_key", load)
        yield
