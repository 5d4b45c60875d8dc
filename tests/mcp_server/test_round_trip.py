"""The official client proposes, waits for a person, applies and rolls back, over both transports."""

import contextlib
import json
from collections.abc import Iterator

import pytest

from tests.mcp_server.mcp_office import CONSOLE, Desked, Talk, over_http, over_stdio, talking, words_of

WAYS = (
    "http, 2026-07-28",
    "http, 2025-11-25",
    "stdio, 2026-07-28",
    pytest.param("stdio, 2025-11-25", marks=pytest.mark.long),
)


@contextlib.contextmanager
def _connected(way: str, desked: Desked, address: str) -> Iterator[Talk]:
    transport, _, version = way.partition(", ")
    mode = "auto" if version == "2026-07-28" else "legacy"
    if transport == "http":
        client = over_http(address, desked.agent, mode)
    else:
        client = over_stdio(desked, token=desked.agent, mode=mode)
    with talking(client) as talk:
        assert talk.client.protocol_version == version
        yield talk


@pytest.mark.parametrize("way", WAYS)
def test_an_agent_proposes_a_person_approves_the_agent_applies_and_undoes(
    way: str, desked: Desked, address: str
) -> None:
    plan, file = desked.plan()
    before = file.read_text()
    with _connected(way, desked, address) as talk:
        preview = talk.ok("preview_plan", plan=plan)
        assert preview["status"] == "WITHHELD"
        assert file.read_text() == before

        first = talk.call("propose_plan", plan=plan, note="from a test")
        view = first.structured_content
        assert isinstance(view, dict)
        proposal = view["proposal_id"]
        assert view["state"] == "PENDING"
        assert view["link"] == (f"{CONSOLE}/inbox/plan/{proposal}" if way.startswith("http") else None)
        assert f"remit approvals show {proposal}" in words_of(first)
        assert talk.refused("apply_plan", proposal_id=proposal)["next_step"]
        assert file.read_text() == before

        desked.yes(proposal)
        assert talk.ok("plan_status", proposal_id=proposal)["state"] == "APPROVED"
        assert talk.ok("apply_plan", proposal_id=proposal)["state"] == "APPLIED"
        changed = file.read_text()
        assert changed != before
        assert talk.ok("apply_plan", proposal_id=proposal)["state"] == "APPLIED"
        assert file.read_text() == changed

        [report] = talk.read(f"remit://reports/{proposal}").contents
        assert json.loads(report.text)["report"]["status"] == "SUCCESS"  # type: ignore[union-attr]
        [diff] = talk.read(f"remit://diffs/{proposal}").contents
        assert file.name in diff.text  # type: ignore[union-attr]

        assert talk.ok("undo_plan", proposal_id=proposal)["status"] == "EXECUTED"
        assert file.read_text() == before
        assert talk.ok("plan_status", proposal_id=proposal)["state"] == "UNDONE"
