"""Children that may have a connection make it before their walls close, to one address, and no other afterwards."""

import errno
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from remit.core.errors import UsageError
from remit.core.syscalls import number_of
from remit.plans.engines.postgres_servers import with_addresses
from remit.sandbox import seccomp
from remit.sandbox.host import SandboxHost
from remit.sandbox.memfd import sealed
from remit.sandbox.orders import Build, Order
from remit.sandbox.seccomp import NETWORK_CHECKED, allow_list, remove_calls
from tests.effects.postgres.postgres_sandbox import PROBE, Shop, make_host
from tests.sandbox.test_seccomp import ALLOW, DENY, MACHINES, walk

DENIED: Final = str(errno.EPERM)
ADDED: Final = (*seccomp.CONNECTING, *seccomp.CONNECTED)
NEVER: Final = ("bind", "listen", "accept", "accept4", "socketpair", "sendmsg", "sendmmsg", "shutdown")


def an_order() -> Order:
    return Order(PROBE, "run", "task-1", "PROBE", {"address": "/nowhere"}, False, "", network=True)


def probed(host: SandboxHost, shop: Shop) -> dict[str, str]:
    with sealed("server", with_addresses(shop.server)) as descriptor:
        output = host.run(an_order(), given={"server": descriptor}).output
    assert output is not None
    return output


@pytest.mark.req("PX-19", "FX-11")
def test_after_the_walls_there_is_one_connection_and_no_way_to_another(shop: Shop) -> None:
    found = probed(shop.host, shop)
    assert found.pop("answer") == "2"
    assert found.pop("file") == str(errno.EACCES)
    assert set(found.values()) == {DENIED}
    assert set(found) == {"socket", "unix", "pair", "connect", "bind"}


@pytest.mark.req("PX-19")
def test_the_same_attempts_get_through_without_walls(shop: Shop, tmp_path: Path) -> None:
    with make_host(tmp_path / "open", confined=False) as host:
        found = probed(host, shop)
    assert found["socket"] == found["unix"] == found["pair"] == found["file"] == "done"
    assert DENIED not in found.values()


@pytest.mark.req("PX-19")
def test_only_processes_that_are_built_for_it_get_the_network(tmp_path: Path) -> None:
    with make_host(tmp_path, build=Build(packages=("psycopg",))) as host, pytest.raises(UsageError, match="network"):
        host.run(an_order())


@pytest.mark.req("PX-19", "FX-11")
@pytest.mark.parametrize("machine", MACHINES)
def test_the_flag_allows_what_a_connection_takes_and_no_other_call(machine: str) -> None:
    plain, network = allow_list(machine), allow_list(machine, network=True)
    added = {number_of(name, machine) for name in (*ADDED, *NETWORK_CHECKED)}
    for number in range(1_000):
        said = walk(plain, number, (), machine), walk(network, number, (), machine)
        if number not in added:
            assert said[0] == said[1]
    assert {
        walk(network, number_of(name, machine) or 0, (1,), machine) for name in ADDED if number_of(name, machine)
    } == {ALLOW}
    assert all(max(one.if_true, one.if_false) <= 255 for one in network)


@pytest.mark.req("PX-19", "FX-11")
@pytest.mark.parametrize("machine", MACHINES)
def test_the_order_takes_away_what_it_took_to_connect(machine: str) -> None:
    program = remove_calls(machine, restores=False, network=True)
    for name in ("socket", *seccomp.CONNECTING):
        if (number := number_of(name, machine)) is not None:
            assert walk(program, number, (2,), machine) == DENY
    for name in ("sendto", "recvfrom", "poll", "read", "write"):
        if (number := number_of(name, machine)) is not None:
            assert walk(program, number, (), machine) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("family, allowed", [(1, True), (2, True), (10, True), (16, False), (17, False), (40, False)])
def test_sockets_are_of_the_families_of_a_server(machine: str, family: int, allowed: bool) -> None:  # noqa: FBT001
    said = walk(allow_list(machine, network=True), number_of("socket", machine) or 0, (family, 1, 0), machine)
    assert said == (ALLOW if allowed else DENY)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("call", ["sendto", "recvfrom"])
def test_nothing_is_sent_to_an_address(machine: str, call: str) -> None:
    program, number = allow_list(machine, network=True), number_of(call, machine) or 0
    assert walk(program, number, (5, 1, 10, 0, 0, 0), machine) == ALLOW
    assert walk(program, number, (5, 1, 10, 0, 4096, 16), machine) == DENY


@contextmanager
def relayed(path: str) -> Iterator[int]:
    """A port of this machine behind which the socket of the test server is."""
    listening = socket.create_server(("127.0.0.1", 0))

    def pump(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65_536):
                target.sendall(data)
        except OSError:
            pass
        finally:
            for end in (source, target):
                end.close()

    def serve() -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(path)
            for pair in ((client, server), (server, client)):
                threading.Thread(target=pump, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield listening.getsockname()[1]
    listening.close()


@pytest.mark.req("PX-19")
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_server_is_reached_over_tcp_by_its_name(shop: Shop, name: str) -> None:
    query = "SELECT current_setting('unix_socket_directories'), current_database()"
    folder, database = shop.ask(query, url=shop.admin)[0]
    with relayed(f"{folder}/.s.PGSQL.5432") as port:
        shop.server = shop.find(f"postgresql://{shop.role}:{shop.password}@{name}:{port}/{database}")
        before = shop.dump()
        done = shop.apply("UPDATE customers SET city = 'over TCP'")
        assert shop.dump() != before
        assert done.images is not None
        shop.undo(done.images.descriptor)
        assert shop.dump() == before
