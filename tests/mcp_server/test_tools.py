"""The answers of each tool: documents of the contracts, a summary, and refusals with a next step."""

import json
import threading
import time
from datetime import timedelta
from typing import Any

import jsonschema_rs
import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult

from remit.contracts.tasks.task import TaskManifest
from remit.core.ids import parse_time
from remit.identity.callers import PersonCaller
from remit.mcp_server.auth import authenticate_bearer
from remit.mcp_server.server import build_server
from remit.mcp_server.tools.plans import TOOLS as PLAN_TOOLS
from tests.mcp_server.mcp_office import APPROVER, MIA, Desked, Talk, words_of

ADMIN = PersonCaller(APPROVER.person, "admin")


def _manifest(desked: Desked, name: str) -> dict[str, Any]:
    base = desked.office.base
    return {
        "task_id": f"task-{name}",
        "capability_id": "FILE_COPY",
        "inputs": {"source_path": str(base / "form.txt"), "destination_path": str(base / f"{name}.txt")},
        "constraints": {"reversible": True},
    }


def _lease(desked: Desked, manifest: dict[str, Any]) -> dict[str, Any]:
    """Issue a lease as the kernel does. No tool of the server signs one."""
    return desked.workspace.issue_lease(TaskManifest.from_tree(manifest).canonical()).tree()


# --- documents ------------------------------------------------------------------------------------------------------


def test_every_answer_and_every_refusal_fits_the_published_schema(desked: Desked, talk: Talk) -> None:
    plan, _ = desked.plan()
    schemas = {tool.name: tool.output_schema for tool in talk.run(lambda client: client.list_tools()).tools}

    def fits(name: str, result: CallToolResult) -> None:
        jsonschema_rs.validator_for(schemas[name]).validate(result.structured_content)
        if not result.is_error:
            assert json.loads(result.content[-1].text) == result.structured_content  # type: ignore[union-attr]

    good: dict[str, dict[str, Any]] = {
        "preview_plan": {"plan": plan},
        "propose_plan": {"plan": plan},
        "ask": {"utterance": "are you there"},
    }
    for name, arguments in good.items():
        result = talk.call(name, **arguments)
        assert not result.is_error
        fits(name, result)
    for name in schemas:
        fits(name, talk.call(name, nonsense=True))


def test_a_plan_is_published_with_its_contract_and_refused_by_it(desked: Desked, talk: Talk) -> None:
    listed = talk.run(lambda client: client.list_tools()).tools
    schema = next(tool.input_schema for tool in listed if tool.name == "propose_plan")
    plan, file = desked.plan()
    check = jsonschema_rs.validator_for(schema)
    assert check.is_valid({"plan": plan})
    assert not check.is_valid({"plan": {**plan, "surprise": 1}})
    assert not check.is_valid({"plan": plan, "force": True})
    told = talk.refused("propose_plan", plan={**plan, "surprise": 1})
    assert told["code"] == "malformed"
    assert "surprise" in told["where"]
    no_plans: list[Any] = [[], "plan", None, 5]
    for wrong in no_plans:
        assert talk.refused("propose_plan", plan=wrong)["code"] == "malformed"
    no_waits: list[Any] = [31, -1, 1.5, "1", True, None]
    for wrong in no_waits:
        assert talk.refused("propose_plan", plan=plan, wait_seconds=wrong)["code"] == "malformed"
    assert file.read_text() == "one\ntwo\nthree\n"


def test_arguments_are_never_a_command_or_a_path(desked: Desked, talk: Talk) -> None:
    for name in ("--upload-pack=touch x", "a; touch pwned", "../../.kube/config", "last", "$(id)"):
        assert talk.refused("plan_status", proposal_id=name)["code"] == "malformed"
        assert talk.refused("task_status", task_id=name)["code"] == "state_missing"
        assert talk.refused("browse_status", action_id=name)["code"] == "state_missing"
        assert talk.refused("goal_status", correlation_id=name)["code"] == "state_missing"


def test_an_internal_error_reveals_no_detail(
    desked: Desked, talk: Talk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("hunter2 is the password")

    monkeypatch.setattr(desked.desk.plans, "get", fail)
    result = talk.call("plan_status", proposal_id="0192f0c1-2345-7abc-8def-0123456789ab")
    assert result.is_error
    assert "hunter2" not in words_of(result)
    assert result.structured_content is not None
    assert result.structured_content["code"] == "internal"
    assert [record.name for record in caplog.records if record.exc_info] == ["remit.mcp_server.tool"]


def test_the_same_key_proposes_once(desked: Desked, talk: Talk) -> None:
    plan, _ = desked.plan()
    other, _ = desked.plan()
    first = talk.ok("propose_plan", plan=plan, key="k-1")
    assert talk.ok("propose_plan", plan=plan, key="k-1")["proposal_id"] == first["proposal_id"]
    assert talk.refused("propose_plan", plan=other, key="k-1")["code"] == "idempotency_conflict"


def test_a_rollback_that_would_overwrite_drift_is_refused_with_the_reason(desked: Desked, talk: Talk) -> None:
    plan, file = desked.plan()
    proposal = talk.ok("propose_plan", plan=plan)["proposal_id"]
    desked.yes(proposal)
    talk.ok("apply_plan", proposal_id=proposal)
    file.write_text("somebody else's\n")
    taken = talk.call("undo_plan", proposal_id=proposal)
    assert taken.is_error
    assert taken.structured_content is not None
    assert taken.structured_content["status"] == "REFUSED"
    assert taken.structured_content["drifted"] is None, "which files those are is for people"
    assert "Nothing was rolled back: something that the plan changed has changed again since." in words_of(taken)
    assert words_of(taken).partition("{")[0].count("olled back") == 1
    assert file.read_text() == "somebody else's\n"


# --- waiting --------------------------------------------------------------------------------------------------------


def test_a_waiting_call_reports_that_a_person_is_asked_and_then_the_decision(desked: Desked, talk: Talk) -> None:
    plan, _ = desked.plan()
    heard: list[tuple[float, float | None, str | None]] = []

    async def listen(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))
        if len(heard) == 2:
            threading.Thread(target=_approve_newest, args=(desked,)).start()

    started = time.monotonic()
    result = talk.call("propose_plan", progress=listen, plan=plan, wait_seconds=25)
    assert time.monotonic() - started < 20
    assert result.structured_content is not None
    assert result.structured_content["state"] == "APPROVED"
    assert "apply_plan" in words_of(result)
    assert len(heard) >= 2
    assert [each[0] for each in heard] == sorted({each[0] for each in heard})
    assert all(total == 25 and message and "Waiting for a person" in message for _, total, message in heard)


def _approve_newest(desked: Desked) -> None:
    desked.yes(desked.desk.plans.list_pending(APPROVER)[0].proposal_id)


def test_a_denial_is_reported_with_its_reason(desked: Desked, talk: Talk) -> None:
    plan, file = desked.plan()
    proposal = talk.ok("propose_plan", plan=plan)["proposal_id"]
    desked.desk.plans.decide(APPROVER, proposal, approved=False, reason="not on a Friday")
    status = talk.call("plan_status", proposal_id=proposal, wait_seconds=5)
    assert status.structured_content is not None
    assert (status.structured_content["state"], status.structured_content["reason"]) == ("DENIED", "not on a Friday")
    assert talk.refused("apply_plan", proposal_id=proposal)["next_step"]
    assert file.read_text() == "one\ntwo\nthree\n"


# --- tasks and goals ------------------------------------------------------------------------------------------------


def test_a_leased_task_runs_once_and_its_signed_result_can_be_read(desked: Desked, talk: Talk) -> None:
    manifest = _manifest(desked, "copied")
    lease = _lease(desked, manifest)
    for changed in ({**lease, "task_id": "another"}, {**lease, "signature": lease["signature"][:-4] + "AAAA"}):
        told = talk.call("run_task", manifest=manifest, lease=changed)
        assert told.is_error
        assert (told.structured_content or {}).get("state", "refused") == "refused"
    assert not (desked.office.base / "copied.txt").exists()
    done = talk.ok("run_task", manifest=manifest, lease=lease)
    assert (done["state"], done["result"]["status"]) == ("done", "SUCCESS")
    assert talk.ok("run_task", manifest=manifest, lease=lease)["stored"] is True
    assert talk.ok("task_status", task_id=manifest["task_id"])["result"] == done["result"]
    [read] = talk.read(f"remit://results/tasks/{manifest['task_id']}").contents
    assert json.loads(read.text)["result"] == done["result"]  # type: ignore[union-attr]


def test_a_goal_is_done_or_waits_for_its_user(desked: Desked, talk: Talk) -> None:
    assert talk.ok("ask", utterance="are you there")["state"] == "done"
    asked = talk.ok("ask", utterance="archive the note one", wait_seconds=0)
    goal = asked["correlation_id"]
    waiting = talk.call("goal_status", correlation_id=goal, wait_seconds=1)
    assert waiting.structured_content is not None
    assert waiting.structured_content["waiting_for"] == "confirmation"
    assert waiting.structured_content["waiting"]["link"].startswith("https://remit.example/")
    assert "Waiting for a person" in words_of(waiting)
    assert f"remit ask --tenant acme --continue {goal};" in words_of(waiting)
    for words in ("yes", "ja", "confirm"):
        talk.call("ask", utterance=words, reply_to=goal)
        talk.call("continue_goal", correlation_id=goal)
    assert desked.office.archived() == []
    assert desked.desk.goals.answer(MIA, goal, "yes").state == "done"
    assert desked.office.archived() == ["one"]
    assert talk.ok("goal_status", correlation_id=goal)["state"] == "done"
    [read] = talk.read(f"remit://results/goals/{goal}").contents
    assert json.loads(read.text)["state"] == "done"  # type: ignore[union-attr]


def test_a_refused_request_is_an_error_that_contains_its_whole_answer(desked: Desked, talk: Talk) -> None:
    """To read the status of a refused request later is not an error."""
    refused = talk.call("ask", utterance="paint the fence of the neighbours")
    assert refused.is_error
    assert refused.structured_content is not None
    assert refused.structured_content["state"] == "refused"
    assert talk.ok("goal_status", correlation_id=refused.structured_content["correlation_id"])["state"] == "refused"
    manifest = _manifest(desked, "late")
    lease = desked.workspace.issue_lease(TaskManifest.from_tree(manifest).canonical(), life=timedelta(seconds=1)).tree()
    deadline = time.monotonic() + 20
    while desked.workspace.clock() <= parse_time(lease["expires_at"]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    late = talk.call("run_task", manifest=manifest, lease=lease)
    assert late.is_error
    assert late.structured_content is not None
    assert (late.structured_content["state"], late.structured_content["refused"]["code"]) == (
        "refused",
        "expired",
    )


def test_a_malformed_browser_action_is_refused_before_a_browser_starts(talk: Talk) -> None:
    told = talk.refused("browse", action={"action_id": "a", "type": "navigate"})
    assert (told["code"], told["where"]) == ("malformed", "action, $.target")


HOSTILE = "x\x1b]0;title\x07\u202e\npostgresql://ada:hunter2-correct-horse@db/shop"


def test_an_unknown_tool_is_refused_with_a_code_and_a_next_step(talk: Talk) -> None:
    refused = talk.refused("approve_plan")
    assert refused["code"] == "argument_invalid"
    assert "approve_plan" in refused["what"]
    assert "tools/list" in refused["next_step"]
    hostile = talk.call(HOSTILE)
    assert hostile.is_error
    for text in (words_of(hostile).replace("\n", ""), json.dumps(hostile.structured_content, ensure_ascii=False)):
        assert text.isprintable(), text
        assert "hunter2" not in text


def test_an_unknown_resource_is_refused_with_a_code_and_a_next_step(talk: Talk) -> None:
    for uri in ("remit://nothing/here", "remit://postgresql://ada:hunter2-correct-horse@db/\x1b\u202e"):
        with pytest.raises(MCPError) as caught:
            talk.read(uri)
        problem = caught.value.error
        assert problem.data["code"] == "argument_invalid"
        assert "resources/templates/list" in problem.data["next_step"]
        for text in (problem.message, json.dumps(problem.data, ensure_ascii=False)):
            assert text.isprintable(), text
            assert "hunter2" not in text


def test_the_telemetry_of_the_library_is_off(desked: Desked) -> None:
    """It would send names that a client chooses, and texts of errors, to the tracing provider of the process."""
    server = build_server(desked.desk, authenticate_bearer(lambda: desked.workspace.tokens))
    assert [type(each).__name__ for each in server.middleware] == ["RequestStateBoundary"]


def test_the_plan_tools_are_listed_in_the_order_of_their_use() -> None:
    order = "preview_plan propose_plan plan_status read_plan_preview apply_plan undo_plan cancel_plan"
    assert [spec.name for spec in PLAN_TOOLS] == order.split()
