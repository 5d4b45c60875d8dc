"""No fault point without a kill test, no kill test without a fault point."""

import re
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

import remit
from remit.core.faultpoints import FAULT_POINTS
from tests.crash.store.cases import KILLED_IN, SWEPT_IN, TABLES

SOURCE: Final = Path(remit.__file__).parent
TESTS: Final = Path(__file__).resolve().parents[2]
NOT_BY_A_LITERAL: Final = frozenset({"road.intent_recorded"})
"""Reached by a name that is chosen while it runs."""


def test_every_fault_point_is_killed_by_one_test_that_is_listed() -> None:
    listed = Counter(point for table in (KILLED_IN, SWEPT_IN) for points in table.values() for point in points)
    listed.update({point for table in TABLES for point in table})
    assert set(listed) == FAULT_POINTS
    assert [point for point, times in listed.items() if times > 1] == []


def test_the_listed_test_names_the_point(subtests: pytest.Subtests) -> None:
    for file, points in KILLED_IN.items():
        text = (TESTS / file).read_text("utf-8")
        for point in points:
            with subtests.test(point):
                assert re.search(rf"[\"']{re.escape(point)}[\"':]", text), file
    assert all((TESTS / file).is_file() for file in SWEPT_IN)


def test_the_points_in_the_code_are_the_points_in_the_list() -> None:
    texts = [file.read_text("utf-8") for file in SOURCE.rglob("*.py")]
    reached = {point for text in texts for point in re.findall(r'\breach\("([\w.]+)"\)', text)}
    assert reached | NOT_BY_A_LITERAL == FAULT_POINTS
