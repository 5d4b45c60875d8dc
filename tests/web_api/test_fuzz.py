"""A slice of what `make conformance` does at length: each operation a few times, as an agent and as a person."""

from tests.web_api.fuzz import Counted, fuzz
from tests.web_site import WebSite


def test_no_answer_is_a_failure_or_undocumented(site: WebSite) -> None:
    assert site.app.middleware_stack is not None
    counted = site.app.middleware_stack = Counted(site.app.middleware_stack)
    person = site.person("admin", "fuzzer", user="ada", tenant="acme")
    for who in (site.bot, person):
        found = fuzz(site, who, examples=2, seed=1, phases="examples,fuzzing")
        assert not found, found
    assert sum(counted.statuses.values()) > 150
    assert [status for status in counted.statuses if status >= 500] == []
