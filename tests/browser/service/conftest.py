"""One browser for each module of tests."""

import contextlib
from collections.abc import Iterator

import pytest

from remit.core.errors import RefusedError
from tests.browser.service.browser_workspace import Place, deny, made_place


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with made_place(tmp_path_factory.mktemp("browser")) as place:
        yield place


@pytest.fixture
def place(shared: Place) -> Place:
    """With a session of its own: its token is new."""
    # On a busy machine, a page of the test before may have sent a request after its action had ended.
    for late in shared.workspace.approvals.listed("PENDING"):
        with contextlib.suppress(RefusedError):  # it has expired
            deny(shared, late)
    shared.site.routes.clear()
    shared.forget()
    shared.sleeps.clear()
    shared.issue()
    return shared
