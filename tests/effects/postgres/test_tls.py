"""A server that is reached over TLS and asks for a password: as most real ones are."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from remit.contracts.config.config import PostgresqlConnection
from remit.core.errors import RemitError
from remit.plans.engines.database_files import WorkFolder
from remit.plans.engines.postgres import PostgresEngine, PostgresResult, SqlText
from remit.plans.engines.postgres_servers import find_server
from remit.sandbox.host import SandboxHost
from tests.support.postgres_server import SERVER_ACCOUNT, _run_as_server_account

PASSWORD = "correct horse/battery:staple"
ESCAPED = "correct%20horse%2Fbattery%3Astaple"


class Secured(NamedTuple):
    port: int
    certificate: Path


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    """Its certificate is for localhost, and its one role, besides the administrator, has a password."""
    directory = Path(tempfile.mkdtemp(prefix="remit-tls-", dir="/tmp"))
    port = 20_000 + hash(directory) % 20_000
    shutil.chown(directory, SERVER_ACCOUNT, SERVER_ACCOUNT)
    subprocess.run(
        [
            "openssl",
            "req",
            "-new",
            "-x509",
            "-days",
            "2",
            "-nodes",
            "-out",
            "server.crt",
            "-keyout",
            "server.key",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost",
        ],
        cwd=directory,
        check=True,
        capture_output=True,
    )
    for name in ("server.crt", "server.key"):
        shutil.chown(directory / name, SERVER_ACCOUNT, SERVER_ACCOUNT)
    certificate = directory.with_suffix(".crt")
    shutil.copy(directory / "server.crt", certificate)
    _run_as_server_account(
        directory, "initdb", "-D", "data", "-U", SERVER_ACCOUNT, "-A", "trust", "-E", "UTF8", "--no-sync"
    )
    (directory / "data" / "pg_hba.conf").write_text("local all all trust\nhostssl all all all scram-sha-256\n")
    options = (
        f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={directory} -c ssl=on "
        f"-c ssl_cert_file={directory}/server.crt -c ssl_key_file={directory}/server.key"
    )
    _run_as_server_account(directory, "pg_ctl", "start", "-w", "-D", "data", "-l", "log", "-o", options)
    try:
        make = f"CREATE ROLE plain LOGIN PASSWORD '{PASSWORD}'"
        _run_as_server_account(directory, "psql", "-h", str(directory), "-p", str(port), "-d", "postgres", "-c", make)
        yield Secured(port, certificate)
    finally:
        _run_as_server_account(directory, "pg_ctl", "stop", "-D", "data", "-m", "immediate")
        shutil.rmtree(directory, ignore_errors=True)
        certificate.unlink()


def asked(host: SandboxHost, folder: Path, url: str) -> PostgresResult:
    connection = PostgresqlConnection(type="postgresql", url_variable="SHOP_URL")
    server = find_server("shop", connection, {"SHOP_URL": url})
    engine = PostgresEngine(lambda: host, "task-1", lambda: False)
    query = b"SELECT ssl, current_user FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
    text = SqlText(1, "", query, {}, expect_results=True, results=None, form=None)
    with WorkFolder.make(folder) as work:
        return engine.preview(server, [text], reads_only=True, seconds=20, stop_on_error=True, folder=work)


@pytest.mark.req("PX-19")
@pytest.mark.parametrize("mode", ["require", "verify-full"])
def test_a_server_is_reached_over_tls(secured: Secured, host: SandboxHost, tmp_path: Path, mode: str) -> None:
    trusted = f"&sslrootcert={secured.certificate}" if mode == "verify-full" else ""
    url = f"postgresql://plain:{ESCAPED}@localhost:{secured.port}/postgres?sslmode={mode}{trusted}"
    answer = asked(host, tmp_path, url).actions[0].answer
    assert answer is not None
    assert answer.rows == (("t", "plain"),)


@pytest.mark.req("PX-19")
@pytest.mark.parametrize(
    "password, host_name, words",
    [
        ("wrong-password", "localhost", "it rejected the user or the password"),
        (ESCAPED, "127.0.0.1", "the required secure connection is not possible"),
    ],
)
def test_a_wrong_password_or_certificate_is_refused_and_not_told(
    secured: Secured, host: SandboxHost, tmp_path: Path, password: str, host_name: str, words: str
) -> None:
    place = f"{host_name}:{secured.port}/postgres?sslmode=verify-full&sslrootcert={secured.certificate}"
    with pytest.raises(RemitError, match=words) as failed:
        asked(host, tmp_path, f"postgresql://plain:{password}@{place}")
    assert password not in str(failed.value)
    assert PASSWORD not in str(failed.value)
