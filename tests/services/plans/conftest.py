"""A project with a desk: an agent that proposes, people of each role, and files to change. One for each module."""

from collections.abc import Iterator

import pytest

from tests.services.plans.proposal_workspace import ProposalWorkspace
from tests.support.shared_zygotes import zygotes_are_shared

__all__ = ["zygotes_are_shared"]


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProposalWorkspace]:
    made = ProposalWorkspace(tmp_path_factory.mktemp("office"))
    yield made
    made.close()
