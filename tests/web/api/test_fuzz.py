"""A slice of what `make conformance` does at length: each operation a few times, as a person and as an agent."""

from typing import Final

import pytest

from tests.support.web_server import WebSite
from tests.web.api.fuzz import Counted, fuzz, known_ids

HEAVY: Final = ("previewPlan", "proposePlan", "browse", "decidePlan", "issueToken", "runTask", "issueLease")
"""To make up a whole plan takes schemathesis seconds."""


@pytest.mark.parametrize("kind", ["person", pytest.param("agent", marks=pytest.mark.long)])
def test_no_answer_is_a_failure_or_undocumented(site: WebSite, kind: str) -> None:
    assert site.app.middleware_stack is not None
    counted = site.app.middleware_stack = Counted(site.app.middleware_stack)
    who = site.bot if kind == "agent" else site.person("admin", "fuzzer", user="ada", tenant="acme")
    found = fuzz(site, who, known_ids(site), examples=2, seed=1, phases="fuzzing", without=HEAVY)
    assert not found, found
    assert sum(counted.statuses.values()) > 80
    assert [status for status in counted.statuses if status >= 500] == []
