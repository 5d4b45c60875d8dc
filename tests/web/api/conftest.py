"""One served workspace for each module."""

from collections.abc import Iterator

import pytest

from tests.support.shared_zygotes import zygotes_are_shared
from tests.support.web_server import WebSite

__all__ = ["zygotes_are_shared"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebSite]:
    made = WebSite(tmp_path_factory.mktemp("site"))
    yield made
    made.close()
