"""One browser for each module of tests."""

from collections.abc import Iterator

import pytest

from tests.browser.service.browser_workspace import Place, made_place


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with made_place(tmp_path_factory.mktemp("browser")) as place:
        yield place


@pytest.fixture
def place(shared: Place) -> Place:
    """With a session of its own: its token is new."""
    shared.site.routes.clear()
    shared.forget()
    shared.sleeps.clear()
    shared.issue()
    return shared
