"""Cases that each cost a process or two: some of them in every run of the tests, all of them in `make long`."""

from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet


def some(values: Iterable[Any], keep: int = 3) -> list[Any]:
    """All values as parameters, those but `keep` of them marked as long: the first, the last, and some between."""
    found = list(values)
    last = len(found) - 1
    kept = {round(at * last / max(keep - 1, 1)) for at in range(keep)}
    return [value if at in kept else _long(value) for at, value in enumerate(found)]


def _long(value: Any) -> ParameterSet:
    if isinstance(value, ParameterSet):
        return pytest.param(*value.values, marks=[*value.marks, pytest.mark.long], id=value.id)
    return pytest.param(value, marks=pytest.mark.long)
