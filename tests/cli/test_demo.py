"""`remit demo` shows every promise on real files, and checks each before it says so."""

import json

import pytest

from remit.cli.demo_stage import require
from remit.errors import EnvironmentFailed
from tests.cli.conftest import Remit

PLAN_STEPS = (
    "A plan is previewed",
    "A person approves it",
    "The approved plan, changed by one byte",
    "The approved plan",
    "The same envelope again",
    "Three changes, and a check that fails afterwards",
    "A plan that touches .env",
    "The same, with .env allowed by its name",
    "The last plan is taken back",
    "And once more",
)


@pytest.mark.req("PX-33")
def test_the_demo_goes_as_promised_and_shows_plans_from_diff_to_way_back(remit: Remit) -> None:
    shown = remit("demo", "--json")
    assert shown.code == 0, shown
    steps = {step["title"]: step["result"] for step in shown.document["steps"]}
    assert [title for title in steps if title in PLAN_STEPS] == list(PLAN_STEPS)
    assert '-  "retries": 3,; +  "retries": 5,' in steps["A plan is previewed"]
    assert shown.out == json.dumps(shown.document, indent=2, ensure_ascii=False) + "\n"


def test_the_demo_fails_where_it_would_have_to_lie() -> None:
    with pytest.raises(EnvironmentFailed, match="did not go as promised: it rained"):
        require([], "it rained")
