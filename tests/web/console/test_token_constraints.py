"""The console and the HTTP API refuse a token whose constraint nothing checks."""

import json
from typing import Any, Final
from urllib.parse import urlencode

import pytest

from tests.web.console.console_workspace import Stage

REFUSED: Final[dict[str, tuple[dict[str, str], dict[str, Any], str]]] = {
    "max_purchase": (
        {"amount": "50", "currency": "EUR"},
        {"max_purchase": {"value": 50, "currency": "EUR"}},
        "browser.purchase",
    ),
    "max_actions": ({"max_actions": "5"}, {"max_actions": 5}, "browser.click"),
    "domains": ({"domains": "shop.example"}, {"domains": ["shop.example"]}, "browser.navigate"),
    "user": ({"user": "mia", "tenant": "acme"}, {"user": "mia", "tenant": "acme"}, "goal.ask"),
    "paths": ({"paths": "docs/**"}, {"paths": ["docs/**"]}, "plan.read"),
    "connections": ({"connections": "sales"}, {"connections": ["sales"]}, "plan.read"),
}


@pytest.mark.req("RU-02")
@pytest.mark.parametrize("name", REFUSED)
def test_a_token_for_functions_with_a_constraint_that_nothing_checks_is_refused(stage: Stage, name: str) -> None:
    cookie, csrf = stage.cookie(f"ada-{name}", "admin")
    fields, constraints, works_with = REFUSED[name]
    before = len(stage.workspace.tokens.listed())
    form = {"csrf": csrf, "sub": "bot", "life": "3600", "calls": "crm.pay", **fields}
    shown = stage.ask("POST", "/tokens/issue", urlencode(form), Cookie=cookie)
    wish = json.dumps({"sub": "bot", "caps": ["call.crm.pay"], "constraints": constraints})
    headers = {"Accept": "application/json", "Content-Type": "application/json", "X-Remit-Csrf": csrf}
    told = stage.ask("POST", "/v1/tokens", wish, Cookie=cookie, **headers)
    for answer in (shown, told):
        assert answer.status == 400, answer.text
        assert name in answer.text
        assert works_with in answer.text
        assert "nothing checks it for call.crm.pay" in answer.text
    assert len(stage.workspace.tokens.listed()) == before
