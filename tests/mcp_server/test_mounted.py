"""The server at `/mcp` of `remit serve`. The session cookie of a person gives no access to it."""

from collections.abc import Iterator

import httpx2
import pytest

from remit.web.app import build_app
from remit.web.config.settings import WebSettings
from tests.mcp_server.http_server import serving_site
from tests.mcp_server.mcp_office import PLAIN, Desked, over_http, talking
from tests.mcp_server.test_authority import HEADERS, INITIALIZE, LIST, MODERN, TOOL_NAMES


@pytest.fixture(scope="module")
def site(desked: Desked) -> Iterator[str]:
    settings = WebSettings.of(desked.workspace.config.web)
    with serving_site(lambda port: build_app(desked.desk, settings.listening_at(port))) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_an_agent_is_served_there(mode: str, desked: Desked, site: str) -> None:
    plan, _ = desked.plan()
    with talking(over_http(f"{site}/mcp", desked.agent, mode)) as talk:
        assert {tool.name for tool in talk.run(lambda client: client.list_tools()).tools} == TOOL_NAMES
        proposal = talk.ok("propose_plan", plan=plan)["proposal_id"]
        desked.yes(proposal)
        assert talk.ok("apply_plan", proposal_id=proposal)["state"] == "APPLIED"


def test_a_session_of_a_person_gives_no_access_to_mcp(desked: Desked, site: str) -> None:
    """Even the session of an admin, with all headers of the console's own requests."""
    invited = desked.workspace.people.invite("ada", "admin", actor="os:ann")
    session = desked.workspace.people.redeem(invited.code)
    person = {"Cookie": f"remit_session={session.cookie}", "X-Remit-CSRF": session.csrf, "Origin": site}
    with httpx2.Client(verify=PLAIN, timeout=20) as client:
        assert client.get(f"{site}/inbox", headers=person).status_code == 200  # a good session elsewhere
        for headers, body in ((MODERN, LIST), (HEADERS, INITIALIZE)):
            answer = client.post(f"{site}/mcp", headers={**headers, **person}, json=body)
            assert answer.status_code == 401
        both = {**MODERN, **person, "Authorization": "Bearer eyJhbGciOiJub25lIn0.e30."}
        assert client.post(f"{site}/mcp", headers=both, json=LIST).status_code in {400, 401}
