"""The same road with the ledger on a PostgreSQL server."""

from pathlib import Path

import pytest

from tests.browser.service.browser_workspace import deny, made_place

FORM = '<form method="post" action="/act"><input name="item" value="42"><button id="go">Pay now</button></form>'


@pytest.mark.req("VX-07", "VX-09", "VX-10")
def test_a_request_is_held_answered_and_recorded_on_a_server_too(tmp_path: Path, postgres_url: str) -> None:
    with made_place(tmp_path, url=postgres_url) as place:
        place.site.routes["/act"] = "<title>done</title>"
        place.open(FORM)
        assert not place.click(answer=deny).success
        assert place.site.posts() == []
        assert place.click().success
        assert [question.arrived for question in place.asked] == [0, 0]
        assert place.arrived_digests() == [place.asked[1].approval.request_digest]
        assert [audit["success"] for audit in place.payloads("browser.action")] == [True, False, True]
        place.workspace.tokens.revoke(place.asked[0].approval.token_jti, actor="os:somebody")
        assert place.do(place.action("snapshot", "/act")).error is not None
        assert place.workspace.verify_ledger().holds
