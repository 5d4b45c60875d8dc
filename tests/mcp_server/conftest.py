"""One workspace with its services and one HTTP server for all tests. Each test uses its own files, tokens and ids."""

from collections.abc import Iterator

import pytest

from remit.mcp_server.http import LOOPBACK_HOSTS, mcp_app
from tests.mcp_server.http_server import serving
from tests.mcp_server.mcp_office import Desked, Talk, over_http, talking


@pytest.fixture(scope="session")
def desked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desked]:
    made = Desked(tmp_path_factory.mktemp("desked"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def address(desked: Desked) -> Iterator[str]:
    app = mcp_app(desked.desk, allowed_hosts=LOOPBACK_HOSTS)
    with serving(app, app.running) as found:
        yield found


@pytest.fixture(scope="session")
def talk(desked: Desked, address: str) -> Iterator[Talk]:
    with talking(over_http(address, desked.agent)) as found:
        yield found
