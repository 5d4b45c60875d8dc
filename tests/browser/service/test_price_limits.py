"""`max_purchase` of a token holds for each kind of action that can make the page send something."""

from typing import Any, Final

import pytest

from remit.contracts.browser.token_rules import CONSTRAINT_RULES
from tests.browser.service.browser_workspace import Place

BUY: Final = "fetch('/act', {method: 'POST', body: new URLSearchParams({total: '79.90'})})"
FORM: Final = f"""
<form method="post" action="/act"><input name="total" value="79.90"><button id="go">Buy</button></form>
<input id="field" oninput="{BUY}">
"""
CAUSES: Final[dict[str, tuple[str, str, dict[str, Any]]]] = {
    "browser.click": ("click", "/", {"selector": "#go"}),
    "browser.type": ("type", "/", {"selector": "#field", "value": "x"}),
    "browser.submit": ("submit", "/", {"selector": "form"}),
    "browser.purchase": ("purchase", "/", {"selector": "#go", "amount": {"value": 20, "currency": "EUR"}}),
}


@pytest.mark.req("RU-02", "VX-04")
def test_every_capability_that_the_limit_works_with_is_tried_here() -> None:
    [rule] = [each for each in CONSTRAINT_RULES if each.constraint == "max_purchase"]
    assert set(rule.works_with) == set(CAUSES)


@pytest.mark.req("RU-02", "VX-04")
@pytest.mark.parametrize("cap", CAUSES)
def test_a_request_above_the_limit_is_not_sent_whatever_caused_it(place: Place, cap: str) -> None:
    place.issue(max_purchase={"value": 60, "currency": "EUR"})
    place.open(FORM)
    kind, path, more = CAUSES[cap]
    result = place.do(place.action(kind, path, **more))
    told = (result.reason or "") + " ".join(f"{each.what} {each.next_step}" for each in place.refusals)
    assert "the token allows 60.00 EUR" in told, result
    assert place.asked == []
    assert place.site.posts() == []
