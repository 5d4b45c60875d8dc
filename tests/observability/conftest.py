"""One workspace for the tests of what is counted and traced."""

from collections.abc import Iterator

import pytest

from remit.workspace.workspace import Workspace
from tests.support.shared_zygotes import zygotes_are_shared
from tests.support.task_workspace import made_workspace
from tests.tasks.declared_capabilities import register

__all__ = ["zygotes_are_shared"]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    folder = tmp_path_factory.mktemp("observed")
    with made_workspace(folder, {"REMIT_STATE": str(folder / "state")}) as made:
        register(made, "MARK", "EXPLODE")
        yield made
