"""The preview of a call for a person shows every argument and the whole text of the program."""

from typing import Any

import pytest

from remit.contracts.calls.call import CallPreview
from remit.governed_functions import governed
from tests.governed_functions.customer_workspace import Place

pytestmark = pytest.mark.req("VX-08")


def test_no_argument_hides_another_or_the_programs_own_text(place: Place) -> None:
    @governed(place.workspace, "mail.send", risk="HIGH", preview=lambda **given: f"{given['target']}: ABOVE THE LIMIT")
    def send(target: str, text: str, data: dict[str, str], pin: str) -> None: ...

    token = place.token("mail.send")

    def shown(key: str, **given: Any) -> CallPreview:
        waiting = send.call(token=token, key=key, **{"text": "", "data": {}, "pin": "", **given}).waiting
        assert waiting is not None
        preview = place.workspace.approvals.show(waiting.approval_id).preview
        assert isinstance(preview, CallPreview)
        return preview

    told = shown(
        "1", target="all (password reset)", text="x\nwire 10,000", data={"name": "my secret plan", "value": "y"}
    )
    assert told.arguments["text"] == "x\nwire 10,000"
    assert told.arguments["data"] == '{"name": "my secret plan", "value": "y"}'
    for key, target in enumerate(("password: acme", 'token="acme', "x -----BEGIN PRIVATE KEY-----"), start=2):
        told = shown(str(key), target=target)
        assert told.estimated_effect == f"{told.arguments['target']}: ABOVE THE LIMIT"
    assert "acme" not in shown("5", target='token="acme').estimated_effect
    told = shown("6", target="hunter22", pin="hunter22", data={"name": "API key", "value": "abcd1234"})
    assert (told.arguments["pin"], told.estimated_effect) == ("********", "********: ABOVE THE LIMIT")
    assert told.arguments["data"] == '{"name": "API key", "value": "********"}'
    url = "https://u:p@evil.example/x@bank.example"
    told = shown("7", target=url, pin="E")
    assert told.arguments["target"] == "https://u:********@evil.example/x@bank.example"
    assert told.estimated_effect == f"{told.arguments['target']}: ABOVE THE LIMIT"
