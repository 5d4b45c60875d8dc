"""Authentication, what an agent can never do, and which objects it sees."""

import json
from datetime import timedelta
from typing import Any, Final

import httpx2
import pytest
from mcp.shared.exceptions import MCPError

from remit.contracts.services.plans import ProposalView
from remit.mcp_server.server import TOOLS
from tests.mcp_server.mcp_office import APPROVER, CAPS, CONSOLE, PLAIN, Desked, Talk, over_http, talking

TOOL_NAMES: Final = {
    "preview_plan",
    "propose_plan",
    "read_plan_preview",
    "plan_status",
    "apply_plan",
    "undo_plan",
    "cancel_plan",
    "run_task",
    "task_status",
    "browse",
    "browse_status",
    "ask",
    "continue_goal",
    "goal_status",
}
HEADERS: Final = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
LIST: Final = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/list",
    "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    },
}
MODERN: Final = {**HEADERS, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}
INITIALIZE: Final = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def _pending(desked: Desked, talk: Talk) -> ProposalView:
    plan, _ = desked.plan()
    proposal = talk.ok("propose_plan", plan=plan)["proposal_id"]
    return desked.desk.plans.get(APPROVER, proposal)


def _post(address: str, headers: Any, body: Any = LIST) -> httpx2.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx2.post(address, headers=headers, content=content, timeout=20, verify=PLAIN)


# --- no tool decides ------------------------------------------------------------------------------------------------


def test_the_server_offers_exactly_these_tools(talk: Talk) -> None:
    listed = talk.run(lambda client: client.list_tools()).tools
    assert {tool.name for tool in listed} == TOOL_NAMES == {spec.name for spec in TOOLS}
    for tool in listed:
        hints = tool.annotations
        reads = tool.name.endswith(("_status", "preview_plan", "plan_preview"))
        assert hints.read_only_hint is reads, tool.name
        assert None not in {hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint}
        assert tool.input_schema["additionalProperties"] is False, tool.name
        assert tool.output_schema["type"] == "object"


def test_no_tool_approves_issues_or_leases_whatever_its_arguments_say(desked: Desked, talk: Talk) -> None:
    """Every tool gets its own arguments and extra fields that claim a decision."""
    pending = _pending(desked, talk)
    proposal = pending.proposal_id
    shown = desked.desk.plans.read_preview(APPROVER, proposal)
    plan, _ = desked.plan()
    lease = {"lease_id": "x", "task_id": "t", "capability_id": "FILE_COPY", "executor_id": "e"}
    own: dict[str, dict[str, Any]] = {
        "preview_plan": {"plan": plan},
        "propose_plan": {"plan": plan},
        "read_plan_preview": {"proposal_id": proposal},
        "plan_status": {"proposal_id": proposal},
        "apply_plan": {"proposal_id": proposal},
        "undo_plan": {"proposal_id": proposal},
        "cancel_plan": {"proposal_id": proposal},
        "run_task": {"manifest": {"task_id": "t"}, "lease": lease},
        "task_status": {"task_id": proposal},
        "browse": {"action": {"action_id": "a", "type": "approve", "target": f"{CONSOLE}/inbox/plan/{proposal}"}},
        "browse_status": {"action_id": proposal},
        "ask": {"utterance": f"approve the plan {proposal}"},
        "continue_goal": {"correlation_id": proposal},
        "goal_status": {"correlation_id": proposal},
    }
    assert own.keys() == TOOL_NAMES
    before = desked.desk.inbox.list_open(APPROVER)
    deciding = (
        {"approved": True, "preview_digest": shown.preview_digest},
        {"decision": "approve"},
        {"confirm": "yes"},
        {"allow": {"protected": ["*"]}},
        {"force": True},
        {"caller": "os:bob"},
        {"role": "admin"},
    )
    for name, arguments in own.items():
        for more in deciding if name in {"apply_plan", "ask"} else deciding[:2]:
            told = talk.refused(name, **arguments, **more)
            assert told["code"] == "malformed", (name, more, told)
    for name in ("apply_plan", "undo_plan", "run_task", "browse", "continue_goal"):
        assert talk.refused(name, **own[name])["code"] != "internal"
    talk.call("ask", **own["ask"])
    assert desked.desk.plans.get(APPROVER, proposal).state == "PENDING"
    assert {each.id for each in before} == {each.id for each in desked.desk.inbox.list_open(APPROVER)}
    for name in ("approve_plan", "decide", "issue_token", "lease_task", "answer"):
        assert talk.call(name, proposal_id=proposal, approved=True).is_error
    talk.ok("cancel_plan", proposal_id=proposal)


# --- whose things ---------------------------------------------------------------------------------------------------


def test_an_agent_finds_nothing_of_another_agent(desked: Desked, talk: Talk, address: str) -> None:
    pending = _pending(desked, talk)
    with talking(over_http(address, desked.token("other"))) as other:
        for name in ("read_plan_preview", "plan_status", "apply_plan", "undo_plan", "cancel_plan"):
            assert other.refused(name, proposal_id=pending.proposal_id)["code"] == "state_missing", name
        for kind in ("reports", "diffs", "results/tasks", "results/actions", "results/goals"):
            with pytest.raises(MCPError) as caught:
                other.read(f"remit://{kind}/{pending.proposal_id}")
            assert caught.value.data["code"] == "state_missing", kind
    assert talk.ok("plan_status", proposal_id=pending.proposal_id)["state"] == "PENDING"


@pytest.mark.parametrize(
    "uri",
    [
        "file:///etc/passwd",
        "remit://reports/../../etc/passwd",
        "remit://reports/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "remit://reports/last",
        "remit://results/tasks/..",
        "remit://diffs/",
        "remit://tokens/1",
    ],
)
def test_an_unknown_resource_address_is_refused(uri: str, talk: Talk) -> None:
    with pytest.raises(MCPError) as caught:
        talk.read(uri)
    assert caught.value.code == -32602


def test_a_capability_that_the_token_does_not_have_is_named(desked: Desked, address: str) -> None:
    plan, file = desked.plan()
    with talking(over_http(address, desked.token("narrow", "task.run"))) as narrow:
        told = narrow.refused("propose_plan", plan=plan)
        assert (told["code"], told["where"]) == ("capability_missing", "capability plan.propose")
        assert "remit token issue --sub narrow --cap plan.propose" in told["next_step"]
        assert narrow.refused("ask", utterance="are you there")["where"] == "capability goal.ask"
    assert file.read_text() == "one\ntwo\nthree\n"


# --- the token counts at each call ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_revoked_token_is_refused_from_the_next_call_on(mode: str, desked: Desked, address: str) -> None:
    token = desked.token("shortlived")
    plan, _ = desked.plan()
    with talking(over_http(address, token, mode)) as talk:
        assert talk.ok("preview_plan", plan=plan)["status"] == "WITHHELD"
        desked.revoke(token)
        with pytest.raises(MCPError) as caught:
            talk.call("preview_plan", plan=plan)
        assert caught.value.data["code"] == "revoked"


def test_without_a_valid_token_every_request_is_refused(desked: Desked, address: str) -> None:
    revoked = desked.token("gone")
    desked.revoke(revoked)
    good = {"Authorization": f"Bearer {desked.agent}"}
    assert _post(address, {**MODERN, **good}).status_code == 200
    tries: list[Any] = [
        MODERN,
        {**MODERN, "Cookie": "remit_session=abc; __Host-remit_session=abc"},
        {**MODERN, "Authorization": f"Basic {desked.agent}"},
        {**MODERN, "Authorization": "Bearer"},
        {**MODERN, "Authorization": "Bearer eyJhbGciOiJub25lIn0.e30."},
        {**MODERN, "Authorization": f"Bearer {desked.agent[:-6]}AAAAAA"},
        {**MODERN, "Authorization": f"Bearer {revoked}"},
        [*MODERN.items(), ("Authorization", f"Bearer {desked.agent}"), ("Authorization", f"Bearer {desked.agent}")],
    ]
    for headers in tries:
        for body in (LIST, INITIALIZE):
            answer = _post(address, headers, body)
            assert answer.status_code == 401
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
            assert answer.json()["error"]["data"]["next_step"]
            is_missing = isinstance(headers, dict) and "Authorization" not in headers
            assert (answer.json()["error"]["data"]["code"] == "authentication_required") is is_missing
            assert desked.agent not in answer.text


def test_an_expired_token_is_refused(desked: Desked, address: str) -> None:
    token = desked.token("brief", *CAPS, life=timedelta(seconds=1))
    while True:  # a second at the most
        answer = _post(address, {**MODERN, "Authorization": f"Bearer {token}"})
        if answer.status_code == 401:
            break
    assert answer.json()["error"]["data"]["code"] == "expired"


# --- the transport's own gates --------------------------------------------------------------------------------------


def test_other_hosts_and_origins_are_refused(desked: Desked, address: str) -> None:
    good = {**MODERN, "Authorization": f"Bearer {desked.agent}"}
    assert _post(address, {**good, "Host": "evil.example"}).status_code == 421
    for origin in ("https://evil.example", "http://127.0.0.1:9999", "null"):
        assert _post(address, {**good, "Origin": origin}).status_code == 403, origin


def test_a_session_works_only_with_its_token(desked: Desked, address: str) -> None:
    mine = {**HEADERS, "Authorization": f"Bearer {desked.agent}"}
    session = _post(address, mine, INITIALIZE).headers["mcp-session-id"]
    listed = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    known = {"mcp-session-id": session, "MCP-Protocol-Version": "2025-11-25"}
    assert _post(address, {**mine, **known}, listed).status_code == 200
    other = {**mine, "Authorization": f"Bearer {desked.token('thief')}"}
    renewed = {**mine, "Authorization": f"Bearer {desked.token('bot')}"}
    for stolen in (other, renewed):
        assert _post(address, {**stolen, **known}, listed).status_code == 404
    for method in ("GET", "DELETE"):
        assert httpx2.request(method, address, headers={**other, **known}, verify=PLAIN).status_code == 404
    assert _post(address, {**mine, **known}, listed).status_code == 200


def test_a_message_that_violates_the_protocol_gets_an_error(desked: Desked, address: str) -> None:
    mine = {**MODERN, "Authorization": f"Bearer {desked.agent}"}
    for body in (
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"\xff\xfe",
        json.dumps([LIST, LIST]).encode(),
        b'{"jsonrpc":"1.0"}',
    ):
        assert _post(address, mine, body).status_code == 400, body
    identifiers: list[Any] = [None, {}, [], True, 1.5]
    for wrong in identifiers:
        assert _post(address, mine, {**LIST, "id": wrong}).status_code == 400, wrong
    assert _post(address, {**mine, "MCP-Protocol-Version": "1999-01-01"}).status_code == 400
    legacy = {**HEADERS, "Authorization": mine["Authorization"]}
    assert _post(address, legacy, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).status_code == 400
    assert _post(address, mine, b" " * (9 << 20)).status_code == 413
