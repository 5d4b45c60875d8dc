from collections.abc import Iterator

import pytest

from tests.governed_functions.customer_workspace import Place, made_place


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = made_place(tmp_path_factory.mktemp("governed"))
    yield made
    made.workspace.close()


@pytest.fixture(autouse=True)
def nothing_was_called(place: Place) -> None:
    place.calls.clear()
    place.discounts.clear()
