"""Where a server is found, and that nothing of its URL but names is ever told."""

import json
import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from remit.contracts.config.config import PostgresqlConnection
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.plans.engines.postgres_servers import PostgresServer, find_server, with_addresses
from tests.effects.postgres.postgres_sandbox import Shop

SECRET = "hunter2-and-more"


def found(url: str) -> PostgresServer:
    connection = PostgresqlConnection(type="postgresql", url_variable="SHOP_URL")
    return find_server("shop", connection, {"SHOP_URL": url})


def of_file(path: Path) -> PostgresServer:
    return find_server("shop", PostgresqlConnection(type="postgresql", url_file=str(path)), {})


def test_a_server_is_named_without_its_password() -> None:
    server = found(f"postgresql://remit:{SECRET}@db.example:6432/shop?sslmode=require")
    assert server.where == "shop at db.example:6432/shop as remit"
    options = json.loads(server.conninfo)
    assert (options["host"], options["port"], options["dbname"], options["user"]) == (
        "db.example",
        "6432",
        "shop",
        "remit",
    )
    assert options["password"] == SECRET
    assert SECRET not in repr(server)
    assert options["sslmode"] == "require"
    assert options["gssencmode"] == "disable"


def test_what_is_left_out_is_as_usual_and_what_is_escaped_is_read() -> None:
    options = json.loads(found("postgresql://a%40b:p%2Fw@[::1]").conninfo)
    assert (options["user"], options["password"], options["host"]) == ("a@b", "p/w", "::1")
    assert (options["port"], options["dbname"]) == ("5432", "a@b")
    assert json.loads(found("postgres://a@/d?host=/run/pg").conninfo)["host"] == "/run/pg"


@pytest.mark.req("PX-19")
def test_a_url_that_cannot_be_used_is_refused_and_not_told(subtests: pytest.Subtests) -> None:
    for url, words in [
        (f"mysql://u:{SECRET}@h/d", "begin with"),
        (f"{SECRET}", "begin with"),
        (f"postgresql://:{SECRET}@h/d", "no user"),
        (f"postgresql://u:{SECRET}@/d", "one host"),
        (f"postgresql://u:{SECRET}@a,b/d", "one host"),
        (f"postgresql://u:{SECRET}@h:99999/d", "not a URL"),
        (f"postgresql://u:{SECRET}@h/d?options=-crole%3Dx", "options"),
        (f"postgresql://u:{SECRET}@h/d?service=x", "options"),
        (f"postgresql://u:{SECRET}@h/d?passfile=/x", "options"),
        (f"postgresql://u:{SECRET}@h/d?sslmode=none", "sslmode"),
        (f"postgresql://u:{SECRET}@h/d?sslmode=verify-full", "sslrootcert"),
        (f"postgresql://u:{SECRET}@h/d?sslmode=require&sslmode=disable", "options"),
        (f"postgresql://u:{SECRET}@[h/d", "not a URL"),
        (f"postgresql://u:p@h/{SECRET}@i:5432/d", "not escaped"),
        (f"postgresql://u:p@{SECRET}@i:5432/d", "not escaped"),
        (f"postgresql://u:p@h/d:{SECRET}", "not escaped"),
        ("postgresql://u@h/d\npostgresql://u@i/d", "several lines"),
    ]:
        with subtests.test(url):
            with pytest.raises(RefusedError, match=words) as refused:
                found(url)
            assert refused.value.reason is Reason.CONFIG_INVALID
            assert SECRET not in str(refused.value)
            assert "SHOP_URL" in refused.value.where
            assert ("%40" in refused.value.next_step) is (words == "not escaped")
            assert ("sslrootcert" in refused.value.next_step) is (words == "sslrootcert")
            assert "***" not in refused.value.next_step, "a form to copy"


def test_a_variable_that_is_not_set_is_named() -> None:
    with pytest.raises(RefusedError, match=r"SHOP_URL, which .* is not set") as refused:
        find_server("shop", PostgresqlConnection(type="postgresql", url_variable="SHOP_URL"), {})
    assert "postgresql://user:<PASSWORD>@host:5432/database" in refused.value.next_step


@pytest.mark.req("PX-19")
def test_a_file_with_the_url_must_be_ones_own_alone(tmp_path: Path) -> None:
    path = tmp_path / "url"
    with pytest.raises(RefusedError, match="cannot be read"):
        of_file(path)
    path.write_text(f"postgresql://remit:{SECRET}@h/d\n")
    for mode in (0o640, 0o604, 0o666):
        path.chmod(mode)
        with pytest.raises(RefusedError, match="by other users") as refused:
            of_file(path)
        assert refused.value.reason is Reason.STATE_UNSAFE
    path.chmod(0o600)
    assert of_file(path).where == "shop at h:5432/d as remit"
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(RefusedError, match="cannot be read"):
        of_file(tmp_path / "link")
    if os.geteuid() == 0:
        os.chown(path, 12345, 12345)
        with pytest.raises(RefusedError, match="by other users"):
            of_file(path)


def test_the_host_looks_up_names_and_the_name_stays_for_certificates() -> None:
    options = json.loads(with_addresses(found("postgresql://u@localhost/d")))
    assert set(options["hostaddr"].split(",")) <= {"127.0.0.1", "::1"}
    assert set(options["host"].split(",")) == {"localhost"}
    with pytest.raises(EnvironmentFailureError, match="name of its host is not known"):
        with_addresses(found("postgresql://u@no-such-host.invalid/d"))


# --- servers that do not let us in -----------------------------------------------------------------------------------


@contextmanager
def a_server_that_says(*messages: bytes) -> Iterator[int]:
    """One that takes a connection, asks for the password, and then says these, whatever it got."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            with client:
                first = client.recv(1024)
                if first[4:8] == struct.pack("!I", 80877103):  # may we use TLS
                    client.sendall(b"N")
                    client.recv(1024)
                client.sendall(b"R" + struct.pack("!II", 8, 3))
                client.recv(1024)
                for message in messages:
                    client.sendall(message)

    threading.Thread(target=serve, daemon=True).start()
    yield listening.getsockname()[1]
    listening.close()


def an_error(state: str, words: str) -> bytes:
    body = b"SFATAL\0VFATAL\0C%b\0M%b\0\0" % (state.encode(), words.encode())
    return b"E" + struct.pack("!I", len(body) + 4) + body


def refused_by(shop: Shop, url: str) -> RemitError:
    shop.server = shop.find(url)
    with pytest.raises(RemitError) as failed:
        shop.preview("SELECT 1")
    assert failed.value.reason is Reason.DATABASE_UNREACHABLE
    assert failed.value.where == shop.server.where
    assert SECRET not in str(failed.value)
    return failed.value


@pytest.mark.req("PX-19")
def test_a_password_that_is_wrong_is_not_told(shop: Shop) -> None:
    said = an_error("28P01", f'password authentication failed for user "u" with {SECRET}')
    with a_server_that_says(said) as port:
        problem = refused_by(shop, f"postgresql://u:{SECRET}@127.0.0.1:{port}/d")
    assert "rejected the user or the password" in problem.what
    assert ("password" in problem.next_step, "server runs" in problem.next_step) == (True, False)


def test_a_missing_server_is_reported_as_missing(shop: Shop, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    for url in (f"postgresql://u:{SECRET}@127.0.0.1:{port}/d", f"postgresql://u:{SECRET}@/d?host={tmp_path}"):
        problem = refused_by(shop, url)
        assert "no server answers at this address" in problem.what
        assert "server runs" in problem.next_step


def test_a_missing_database_is_reported_as_missing(shop: Shop) -> None:
    url = shop.url.replace(shop.admin.partition("@/")[2].partition("?")[0], "no_such_database")
    problem = refused_by(shop, url.replace(shop.password, SECRET))
    assert "no such database" in problem.what
    assert ("name of the database" in problem.next_step, "server runs" in problem.next_step) == (True, False)


@pytest.mark.req("PX-19")
def test_secrets_are_in_no_message_of_a_session(shop: Shop) -> None:
    for text in ("SELECT * FROM nowhere", "SELECT 1/0", "COMMIT", f"SELECT '{SECRET}'::integer"):
        with pytest.raises(RemitError) as failed:
            shop.preview(shop.text(text, 1))
        assert SECRET not in str(failed.value)
        assert shop.password not in str(failed.value)
    assert shop.password not in repr(shop.preview("SELECT 1"))
