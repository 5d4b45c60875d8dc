"""No fault point without a kill test, no kill test without a fault point."""

import re
from pathlib import Path

import remit
from remit.core.faultpoints import FAULT_POINTS
from tests.crash.store.cases import COVERED_ELSEWHERE, TABLES

SOURCE = Path(remit.__file__).parent


def test_every_fault_point_is_killed_by_some_test() -> None:
    covered = {point for table in TABLES for point in table}
    assert covered | COVERED_ELSEWHERE == FAULT_POINTS
    assert not covered & COVERED_ELSEWHERE


def test_the_points_in_the_code_are_the_points_in_the_list() -> None:
    texts = [file.read_text("utf-8") for file in SOURCE.rglob("*.py")]
    reached = {point for text in texts for point in re.findall(r'\breach\("([\w.]+)"\)', text)}
    assert reached | COVERED_ELSEWHERE == FAULT_POINTS
