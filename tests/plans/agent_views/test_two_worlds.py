"""An agent gets the same answers, byte for byte, from two workspaces that differ in what files and rows hold."""

import json
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from remit.authority.results import verify_result
from remit.cli import main
from remit.contracts.tasks.result import ExecutionResult
from remit.core.canonical import canonical_bytes, digest_bytes
from remit.core.ids import render_time
from remit.identity.callers import PersonCaller
from remit.identity.person import Person
from remit.services.base import events as events_module
from remit.services.base.ownership import is_visible_to_agents
from remit.services.plans.agent_views import agent_report
from remit.services.plans.service import PlanService
from tests.mcp_server.mcp_office import over_http, talking
from tests.plans.agent_views.worlds import FIRST, PLANS, SECOND, SECRET, World
from tests.plans.project import action, create, digest_of, plan_of, replace
from tests.support.shared_zygotes import zygotes_are_shared
from tests.web.api.test_events import listening

__all__ = ["zygotes_are_shared"]
Worlds = tuple[World, World]
pytestmark = pytest.mark.req("PV-04")

MIDNIGHT: Final = 1_704_067_200 * 10**9
NOT_ABOUT_PLANS: Final = ("browser", "goals", "inbox", "ledger", "catalogue", "people", "tokens", "leases", "openapi")
ABOUT_ONE: Final = {
    ("GET", "/v1/plans/{proposal_id}"),
    ("GET", "/v1/plans/{proposal_id}/preview"),
    ("POST", "/v1/plans/{proposal_id}/preview"),
    ("POST", "/v1/plans/{proposal_id}/decision"),
    ("POST", "/v1/plans/{proposal_id}/apply"),
    ("GET", "/v1/plans/{proposal_id}/undo"),
    ("POST", "/v1/plans/{proposal_id}/undo"),
    ("GET", "/v1/plans/{proposal_id}/report"),
    ("POST", "/v1/plans/{proposal_id}/cancel"),
}
OTHERS: Final = {
    ("GET", "/v1/me"),
    ("POST", "/v1/plans"),
    ("POST", "/v1/plans/preview"),
    ("GET", "/v1/plans"),
    ("GET", "/v1/runs"),
    ("GET", "/v1/runs/{envelope_id}"),
    ("GET", "/v1/runs/{envelope_id}/report"),
    ("POST", "/v1/tasks"),
    ("GET", "/v1/tasks/{task_id}"),
    ("GET", "/v1/events"),
}


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    folder = tmp_path_factory.mktemp("worlds")
    first, second = World(folder / "first", FIRST, 2), World(folder / "second", SECOND, 9)
    yield first, second
    first.close()
    second.close()


def test_every_route_that_tells_an_agent_about_plans_and_tasks_is_asked_here(worlds: Worlds) -> None:
    paths: dict[str, Any] = worlds[0].ask("GET", "/v1/openapi.json").tree["paths"]
    routes = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    about = {(method, path) for method, path in routes if not any(word in path for word in NOT_ABOUT_PLANS)}
    about = {each for each in about if each[1].startswith("/v1/")}
    assert about == ABOUT_ONE | OTHERS


def _bodies(route: tuple[str, str]) -> Any:
    if route[0] == "GET":
        return None
    zeros = "sha256:" + "0" * 64
    return {"approved": True, "preview_digest": zeros} if route[1].endswith("/decision") else {}


def _views(world: World, proposal_id: str) -> list[tuple[str, int, str]]:
    """Of one proposal, by every route. The last one withdraws it, or says that it is too late."""
    found = []
    for method, path in sorted(ABOUT_ONE, key=lambda each: (each[1].endswith("/cancel"), each)):
        told = world.told(method, path.replace("{proposal_id}", proposal_id), _bodies((method, path)), Prefer="wait=30")
        found.append((f"{method} {path}", *told))
    return found


@pytest.mark.parametrize("name", PLANS)
def test_answers_about_what_a_plan_would_do_are_the_same(worlds: Worlds, name: str) -> None:
    check_all_views(worlds, PLANS[name], refused=name.startswith("refused"), key=f"key-{list(PLANS).index(name)}")


def check_all_views(worlds: Worlds, text: bytes, *, refused: bool, key: str) -> None:
    """Compare the answers of every route about this plan, from its first preview to its withdrawal."""
    plan = json.loads(text)
    answers = []
    for world in worlds:
        said = [world.told("POST", "/v1/plans/preview", plan)]
        made = world.ask("POST", "/v1/plans", {"plan": plan}, Idempotency_Key=key)
        again = world.ask("POST", "/v1/plans", {"plan": plan}, Idempotency_Key=key)
        assert (again.status, again.body) == (made.status, made.body) or made.status != 201
        said.append((made.status, world.neutral(made.body.decode())))
        assert (made.status == 201) is not refused, made.body
        if made.status == 201:
            assert world.site.desk.plans.finish_previews(60), "people see it, and the agent sees no difference"
            world.end_turns()  # so the next preview need not wait
            said += [(status, f"{route} {body}") for route, status, body in _views(world, made.tree["proposal_id"])]
        answers.append(said)
    for one, other in zip(*answers, strict=True):
        assert one == other


def test_people_see_what_the_agent_does_not(worlds: Worlds) -> None:
    first, second = worlds
    plan = PLANS["a literal that one of them has"]
    shown = []
    for world in worlds:
        made = world.propose(plan)
        shown.append(world.ask("GET", f"/v1/plans/{made}/preview", who=world.approver).tree["document"])
        assert world.ask("POST", f"/v1/plans/{made}/cancel", {}).status == 200
    assert [document["status"] for document in shown] == ["NEEDS_APPROVAL", "WOULD_FAIL"]
    assert shown[0]["inputs"][0]["digest"] != shown[1]["inputs"][0]["digest"]
    assert (shown[0]["withheld"], shown[0]["would_end"]) == (None, "SUCCESS")
    assert first.root != second.root


def test_the_reason_that_a_person_gives_for_a_denial_is_reported(worlds: Worlds) -> None:
    answers = []
    for world in worlds:
        made = world.propose(PLANS["a delete"])
        said = {"approved": False, "reason": "not today"}
        assert world.ask("POST", f"/v1/plans/{made}/decision", said, who=world.approver).status == 200
        assert world.ask("GET", f"/v1/plans/{made}").tree["reason"] == "not today"
        answers.append(_views(world, made))
    assert answers[0] == answers[1]


def test_after_the_run_an_agent_learns_how_it_ended_and_nothing_else(worlds: Worlds) -> None:
    """The plan fits both, and changes two lines in one of them and four in the other."""
    answers = []
    for world in worlds:
        made = world.propose(PLANS["a text that is in both, not equally often"])
        world.approve(made)
        envelope = world.ask("GET", f"/v1/plans/{made}").tree["envelope_id"]
        told = [world.told("POST", f"/v1/plans/{made}/apply", {}, Prefer="wait=30")]
        assert json.loads(told[0][1])["state"] == "APPLIED"
        told += [world.told("GET", f"/v1/plans/{made}{view}") for view in ("", "/preview", "/report", "/undo")]
        told += [world.told("GET", f"/v1/runs/{envelope}{view}") for view in ("", "/report")]
        told += [world.told("POST", f"/v1/plans/{made}/undo", {}), world.told("POST", f"/v1/plans/{made}/undo", {})]
        told.append(world.told("GET", f"/v1/plans/{made}"))
        answers.append(told)
    for one, other in zip(*answers, strict=True):
        assert one == other


def test_the_refusal_to_apply_an_approved_plan_is_the_same(worlds: Worlds) -> None:
    answers = []
    for number, world in enumerate(worlds):
        for path in ("late.txt", "other.txt"):
            world.site.project.write(path, "one\ntwo\n")
        made = world.propose(plan_of(replace("a", "late.txt"), replace("b", "other.txt"), plan_id="late"))
        world.approve(made)
        world.site.project.write(("late.txt", "other.txt")[number], "changed by a person\n")
        told = [world.told("POST", f"/v1/plans/{made}/apply", {}, Prefer="wait=30")]
        assert told[0][0] >= 400, told
        told.append(world.told("GET", f"/v1/plans/{made}"))
        assert world.ask("POST", f"/v1/plans/{made}/cancel", {}).status == 200
        answers.append(told)
    assert answers[0] == answers[1]


def test_lists_are_the_same(worlds: Worlds) -> None:
    routes = ("/v1/plans", "/v1/plans?state=VOID", "/v1/me", "/v1/runs", "/v1/ledger/default/entries")
    for route in routes:
        one, other = (world.told("GET", route) for world in worlds)
        assert one == other, route


def test_answers_of_mcp_are_the_same(worlds: Worlds) -> None:
    answers = []
    for world in worlds:
        told = []
        with talking(over_http(f"{world.site.url}/mcp", world.token.headers["Authorization"].split()[1])) as talk:
            for name in ("a pattern for every separator", "a delete", "a query file", "own content with a credential"):
                plan = json.loads(PLANS[name])
                told.append(talk.call("preview_plan", plan=plan).model_dump_json())
                made = talk.call("propose_plan", plan=plan)
                assert made.structured_content is not None
                proposal = made.structured_content["proposal_id"]
                assert world.site.desk.plans.finish_previews(60)
                told += [made.model_dump_json(), talk.call("plan_status", proposal_id=proposal).model_dump_json()]
                told.append(talk.read(f"remit://diffs/{proposal}").model_dump_json())
                told += [
                    talk.call(tool, proposal_id=proposal).model_dump_json()
                    for tool in ("apply_plan", "undo_plan", "cancel_plan", "plan_status")
                ]
        answers.append([world.neutral(each) for each in told])
    for one, other in zip(*answers, strict=True):
        assert one == other
        assert SECRET not in one
    assert any("sw0rdfish" in each or "password" in each for each in answers[0]), "what it sent itself is told"


def test_the_event_stream_is_the_same(worlds: Worlds) -> None:
    """Ids are encrypted for each agent, so they are made alike here. How many events there are is compared."""
    answers = []
    for world in worlds:
        told = []
        world.site.project.write("heard.txt", FIRST["even.txt"] if world is worlds[0] else SECOND["even.txt"])
        with listening(world.site, world.token) as stream:
            plan = plan_of(replace("a", "heard.txt", "a=1", "a=2"), plan_id="heard")
            made = world.propose(plan)
            assert world.site.desk.plans.finish_previews(60)
            world.approve(made)
            assert world.ask("POST", f"/v1/plans/{made}/apply", {}, Prefer="wait=30").tree["state"] == "APPLIED"
            assert world.ask("POST", f"/v1/plans/{made}/undo", {}).tree["status"] == "EXECUTED"
            last = world.propose(PLANS["a delete"])
            for event in stream.events():
                data = json.loads(event.get("data", "{}"))
                if data.get("payload") is None and "id" in event:
                    data.pop("id", None)
                    told.append(world.neutral(json.dumps([event["event"], data], sort_keys=True)))
                if last in event.get("data", ""):
                    break
        assert world.ask("POST", f"/v1/plans/{last}/cancel", {}).status == 200
        answers.append(told)
    assert answers[0] == answers[1]
    assert len(answers[0]) > 1
    assert not any("even" in each or SECRET in each for each in answers[0])


def test_output_of_the_command_line_for_an_agent_is_the_same(
    worlds: Worlds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("a literal that one of them has", "a delete of what is there in one", "a query file", "refused: outside")
    answers = []
    for world in worlds:
        told = []
        token = world.token.headers["Authorization"].split()[1]
        monkeypatch.setenv("REMIT_STATE", world.site.workspace.environ["REMIT_STATE"])
        for name in names:
            (tmp_path / "plan.json").write_bytes(PLANS[name])
            for command in (("preview",), ("preview", "--json"), ("run", "--yes"), ("propose", "--json")):
                given = [command[0], str(tmp_path / "plan.json"), *command[1:], "-C", str(world.root)]
                ran = CliRunner().invoke(main, given, env={"REMIT_TOKEN": token})
                shown = f"{ran.exit_code} {ran.exception!r} {ran.stdout} {ran.stderr}"
                told.append((name, command, world.neutral(shown)))
        answers.append(told)
    for one, other in zip(*answers, strict=True):
        assert one == other
    assert any('"status": "WITHHELD"' in shown or "as its agent sees it" in shown for *_, shown in answers[0])
    assert not any("Traceback" in shown or "AssertionError" in shown for *_, shown in answers[0])


# --- tasks -----------------------------------------------------------------------------------------------------------


def _task(world: World, task_id: str, capability: str, source: str, destination: str | None = None) -> dict[str, Any]:
    inputs = {"source_path": str(world.site.base / source)}
    if destination is not None:
        inputs["destination_path"] = str(world.site.base / destination)
    return {
        "task_id": task_id,
        "capability_id": capability,
        "inputs": inputs,
        "constraints": {"reversible": True},
    }


def test_a_task_on_a_protected_file_needs_a_lease_that_a_person_issued(worlds: Worlds) -> None:
    world = worlds[0]
    (world.site.base / ".env").write_text(f"TOKEN={SECRET}\n")
    (world.site.base / "plain.txt").write_text("plain\n")
    asked = (
        _task(world, "copy-out", "FILE_COPY", ".env", "readable.txt"),
        _task(world, "copy-in", "FILE_COPY", "plain.txt", "sub/.env"),
        _task(world, "move-out", "FILE_MOVE", ".env", "readable.txt"),
        _task(world, "remove", "FILE_DELETE", ".env"),
    )
    (world.site.base / "sub").mkdir()
    for manifest in asked:
        lease = world.lease(manifest, by_person=False)
        said = world.ask("POST", "/v1/tasks", {"manifest": manifest, "lease": lease}, Prefer="wait=30")
        assert (said.status >= 400, said.tree["code"]) == (True, "protected"), said.body
        assert not (world.site.base / "readable.txt").exists()
    assert (world.site.base / ".env").exists()
    manifest = _task(world, "copy-by-person", "FILE_COPY", ".env", "readable.txt")
    lease = world.lease(manifest, by_person=True)
    done = world.ask("POST", "/v1/tasks", {"manifest": manifest, "lease": lease}, Prefer="wait=30")
    assert (done.status, done.tree["result"]["status"]) == (200, "SUCCESS"), done.body
    (world.site.base / "readable.txt").unlink()


def test_every_interface_refuses_a_task_on_a_protected_file(
    worlds: Worlds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = worlds[0]
    (world.site.base / ".env").write_text(f"TOKEN={SECRET}\n")
    manifest = _task(world, "copy-by-any-way", "FILE_COPY", ".env", "readable.txt")
    lease = world.lease(manifest, by_person=False)
    token = world.token.headers["Authorization"].split()[1]
    with talking(over_http(f"{world.site.url}/mcp", token)) as talk:
        assert talk.refused("run_task", manifest=manifest, lease=lease)["code"] == "protected"
    monkeypatch.setenv("REMIT_STATE", world.site.workspace.environ["REMIT_STATE"])
    (tmp_path / "task.json").write_text(json.dumps(manifest))
    (tmp_path / "lease.json").write_text(json.dumps(lease))
    given = ["task", "run", str(tmp_path / "task.json"), "--lease", str(tmp_path / "lease.json"), "-C", str(world.root)]
    ran = CliRunner().invoke(main, given, env={"REMIT_TOKEN": token})
    assert (ran.exit_code, ran.stdout) == (2, ""), ran.output
    assert "this file is protected, and no person issued a lease that names it" in ran.stderr
    assert not (world.site.base / "readable.txt").exists()


def test_a_protected_file_that_was_deleted_is_restored_by_a_persons_lease_only(
    worlds: Worlds,
) -> None:
    world = worlds[0]
    (world.site.base / ".env").write_text(f"TOKEN={SECRET}\n")
    manifest = _task(world, "delete-protected", "FILE_DELETE", ".env")
    asked = {"manifest": manifest, "lease": world.lease(manifest, by_person=True)}
    done = world.ask("POST", "/v1/tasks", asked, Prefer="wait=30").tree["result"]
    assert not (world.site.base / ".env").exists()
    inputs = {
        "recovery": done["output"]["undo_metadata"]["recovery"],
        "destination_path": str(world.site.base / "readable.txt"),
    }
    back = {**_task(world, "restore-protected", "FILE_RESTORE", ""), "inputs": inputs}
    asked = {"manifest": back, "lease": world.lease(back, by_person=False)}
    said = world.ask("POST", "/v1/tasks", asked, Prefer="wait=30")
    assert (said.status, said.tree["code"]) == (403, "protected"), said.body
    assert not (world.site.base / "readable.txt").exists()
    asked = {"manifest": back, "lease": world.lease(back, by_person=True)}
    said = world.ask("POST", "/v1/tasks", asked, Prefer="wait=30")
    assert said.tree["result"]["status"] == "SUCCESS", said.body
    (world.site.base / "readable.txt").unlink()


def test_a_lease_that_an_agent_obtained_is_not_accepted_as_a_persons(worlds: Worlds) -> None:
    world = worlds[0]
    (world.site.base / ".env").write_text(f"TOKEN={SECRET}\n")
    manifest = _task(world, "by-an-agent", "FILE_COPY", ".env", "readable.txt")
    raw = json.dumps(manifest).encode()
    other = world.lease({**manifest, "task_id": "another"}, by_person=True)
    leased = world.site.workspace.tasks.issue_lease(raw, timedelta(minutes=5), actor="agent:bot").tree()
    for lease in (leased, other, {}):
        said = world.ask("POST", "/v1/tasks", {"manifest": manifest, "lease": lease}, Prefer="wait=30")
        assert said.status >= 400, said.body
        assert not (world.site.base / "readable.txt").exists()


def test_the_result_of_a_task_holds_no_digest_of_a_file(worlds: Worlds) -> None:
    answers = []
    for number, world in enumerate(worlds):
        (world.site.base / "pin.txt").write_text(f"{number}\n" * (number + 1) * 100)
        manifest = _task(world, "copied", "FILE_COPY", "pin.txt", "pin-copy.txt")
        lease = world.lease(manifest, by_person=True)
        told = [world.told("POST", "/v1/tasks", {"manifest": manifest, "lease": lease}, Prefer="wait=30")]
        told.append(world.told("GET", "/v1/tasks/copied"))
        result = ExecutionResult.from_tree(world.ask("GET", "/v1/tasks/copied").tree["result"])
        verify_result(result, world.site.workspace.keyring, render_time(world.site.workspace.clock()))
        assert "sha256" in world.ask("GET", "/v1/tasks/copied", who=world.operator).body.decode()
        answers.append(told)
    assert answers[0] == answers[1]
    assert "sha256" not in answers[0][0][1]


def test_the_result_of_a_delete_does_not_tell_what_the_file_held(worlds: Worlds) -> None:
    """The reference ends in a digest. An agent that knows all but the content must not be able to try contents."""
    answers = []
    for number, world in enumerate(worlds):
        path = world.site.base / "pin.txt"
        path.write_text(f"pin={number}\n" * (number + 1))
        path.chmod(0o644)
        found, content = path.stat(), path.read_bytes()
        os.utime(path, ns=(MIDNIGHT, MIDNIGHT))  # last: reading it may change the time of access
        manifest = _task(world, "deleted", "FILE_DELETE", "pin.txt")
        lease = world.lease(manifest, by_person=True)
        answers.append(world.told("POST", "/v1/tasks", {"manifest": manifest, "lease": lease}, Prefer="wait=30"))
        told = world.ask("GET", "/v1/tasks/deleted").tree["result"]["output"]["undo_metadata"]["recovery"]
        guess = {
            "version": 1,
            "path": str(path),
            "size": len(content),
            "sha256": digest_of(content),
            "mode": 0o644,
            "uid": found.st_uid,
            "gid": found.st_gid,
            "atime_ns": str(MIDNIGHT),
            "mtime_ns": str(MIDNIGHT),
            "xattrs": {},
        }
        bare = {**guess, "sha256": digest_of(content).removeprefix("sha256:")}
        assert told.partition("@")[2] not in {digest_bytes(canonical_bytes(each)) for each in (guess, bare)}
        result = ExecutionResult.from_tree(world.ask("GET", "/v1/tasks/deleted").tree["result"])
        back = world.site.workspace.tasks.restore(result.canonical(), timedelta(minutes=5))
        assert (back.status, path.read_bytes()) == ("SUCCESS", content), "the result is still enough to restore"
        path.unlink()
    assert answers[0] == answers[1]


@pytest.mark.parametrize("capability", ["FILE_COPY", "FILE_MOVE", "FILE_DELETE"])
def test_a_task_that_is_refused_tells_neither_size_nor_number_of_links(worlds: Worlds, capability: str) -> None:
    for what in ("large", "linked"):
        answers = []
        for number, world in enumerate(worlds, start=1):
            path = world.site.base / f"{what}.txt"
            path.write_text("x")
            links = [world.site.base / f"link-{each}" for each in range(number if what == "linked" else 0)]
            for link in links:
                link.hardlink_to(path)
            if what == "large":
                os.truncate(path, (1 << 40) * number)
            named = None if capability == "FILE_DELETE" else "made.txt"
            manifest = _task(world, f"{what}-{capability}", capability, path.name, named)
            lease = world.lease(manifest, by_person=True)
            told = world.told("POST", "/v1/tasks", {"manifest": manifest, "lease": lease}, Prefer="wait=30")
            assert "SUCCESS" not in told[1]
            answers.append(told)
            for each in (path, *links):
                each.unlink()
        assert answers[0] == answers[1]


def test_what_an_agent_wrote_itself_is_in_its_preview(worlds: Worlds) -> None:
    shown = worlds[0].ask("POST", "/v1/plans/preview", json.loads(plan_of(create("a", "own.txt", "mine\n")))).tree
    assert (shown["files"][0]["lines_added"], "+mine" in shown["files"][0]["diff"]) == (1, True)
    assert (shown["status"], bool(shown["withheld"]), shown["problems"]) == ("WITHHELD", True, None)


def test_a_withheld_value_is_null_and_not_zero(worlds: Worlds) -> None:
    """A zero or an empty list would say that nothing happened, or that nothing would fail."""
    world = worlds[0]
    world.site.project.write("zeros.txt", "one\n")
    plan = plan_of(replace("a", "zeros.txt", "one", "two"), plan_id="no-zeros")
    shown = world.ask("POST", "/v1/plans/preview", json.loads(plan)).tree
    told = ("digest", "config_digest", "inputs", "problems", "doomed", "would_end", "folders", "backup_bytes")
    assert {name: shown[name] for name in told} == dict.fromkeys(told)
    counts = ("lines_added", "lines_removed", "diff", "diff_left_out", "before", "after")
    assert {name: shown["files"][0][name] for name in counts} == dict.fromkeys(counts)
    made = world.propose(plan)
    world.approve(made)
    assert world.ask("POST", f"/v1/plans/{made}/apply", {}, Prefer="wait=30").tree["state"] == "APPLIED"
    found = world.ask("GET", f"/v1/plans/{made}/report").tree
    assert found["report"]["status"] == "SUCCESS"
    assert found["report"]["actions_summary"] == {"total": 1, "completed": 1, "failed": 0, "skipped": 0}
    assert (found["report"]["duration_ms"], found["report"]["actions_completed"]) == (None, None)
    assert (found["change_log"]["files_affected_count"], found["change_log"]["changes"]) == (None, None)
    assert (found["errors"], found["rollbacks"]) == (None, None)
    for_people = world.ask("GET", f"/v1/plans/{made}/report", who=world.approver).tree
    assert for_people["change_log"]["files_affected_count"] == 1
    world.site.project.write("zeros.txt", "changed by a person\n")
    undone = world.ask("POST", f"/v1/plans/{made}/undo", {})
    assert (undone.status, undone.tree["code"]) == (409, "drifted"), undone.body
    answers = world.neutral(undone.body.decode())
    assert "does not depend on the content" not in answers
    assert "zeros.txt" not in answers


# --- numbers of entries, and runs that changed nothing ---------------------------------------------------------------


def test_the_undo_of_a_run_that_changed_nothing_looks_like_every_other(worlds: Worlds) -> None:
    """Else an agent could try values: the run that changes nothing is the one with the value that is there."""
    answers = []
    for world, value in zip(worlds, ("1", "2"), strict=True):
        world.site.project.write("guess.json", f'{{"count": {value}}}\n')
        edit = action("a", "FILE_MODIFY", "guess.json", {"type": "json_update_value", "path": "$.count", "value": 1})
        with listening(world.site, world.token) as stream:
            made = world.propose(plan_of(edit, plan_id="guess"))
            world.approve(made)
            assert world.ask("POST", f"/v1/plans/{made}/apply", {}, Prefer="wait=30").tree["state"] == "APPLIED"
            told = [world.told("POST", f"/v1/plans/{made}/undo", {}), world.told("POST", f"/v1/plans/{made}/undo", {})]
            told += [world.told("GET", f"/v1/plans/{made}{view}") for view in ("", "/undo", "/report")]
            envelope = world.ask("GET", f"/v1/plans/{made}").tree["envelope_id"]
            told.append(world.told("GET", f"/v1/runs/{envelope}"))
            last = world.propose(PLANS["a delete"])
            heard = []
            for event in stream.events():
                heard.append(event.get("event", ""))
                if last in event.get("data", ""):
                    break
        assert world.ask("POST", f"/v1/plans/{last}/cancel", {}).status == 200
        assert world.ask("GET", f"/v1/plans/{made}").tree["state"] == "UNDONE"
        assert world.ask("POST", f"/v1/plans/{made}/undo", {}, who=world.operator).status == 200
        assert json.loads((world.root / "guess.json").read_text()) == {"count": int(value)}
        answers.append((told, [kind for kind in heard if kind]))
    assert answers[0] == answers[1]


def test_the_limit_of_missed_events_does_not_reveal_how_much_was_recorded_in_between(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run notes each file, and no agent is told of that. It must not count them by how many events of its own still
    fit into what is told at once.
    """
    world = worlds[0]
    world.site.project.write("counted.txt", "one\n")
    made = world.propose(plan_of(replace("a", "counted.txt", "one", "two"), plan_id="counted"))
    world.approve(made)
    assert world.ask("POST", f"/v1/plans/{made}/apply", {}, Prefer="wait=30").tree["state"] == "APPLIED"
    kinds = world.site.project.kinds()
    assert not all(is_visible_to_agents(kind) for kind in kinds)
    monkeypatch.setattr(events_module, "MAX_MISSED", sum(is_visible_to_agents(kind) for kind in kinds))
    with listening(world.site, world.token, "?after=-") as stream:
        assert next(event for event in stream.events() if "event" in event)["event"] != "desk.lagged"
    monkeypatch.setattr(events_module, "MAX_MISSED", sum(is_visible_to_agents(kind) for kind in kinds) - 1)
    with listening(world.site, world.token, "?after=-") as stream:
        assert next(event for event in stream.events() if "event" in event)["event"] == "desk.lagged"


def test_the_command_line_shows_an_agent_no_number_of_entries(worlds: Worlds, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = (("ledger", "verify"), ("ledger", "verify", "--json"), ("ledger", "head"), ("clock", "show"))
    doctor = []
    answers: list[list[str]] = []
    for number, world in enumerate(worlds):
        world.site.project.write("noted.txt", "one\n" * (number + 1))
        monkeypatch.setenv("REMIT_STATE", world.site.workspace.environ["REMIT_STATE"])
        if number:  # another number of entries, and a later newest one
            assert world.ask("POST", f"/v1/plans/{world.propose(PLANS['a delete'])}/cancel", {}).status == 200
        told = []
        for command in commands:
            token = world.token.headers["Authorization"].split()[1]
            ran = CliRunner().invoke(main, [*command, "-C", str(world.root)], env={"REMIT_TOKEN": token})
            told.append(f"{ran.exit_code} {world.neutral(ran.stdout)} {world.neutral(ran.stderr)}")
        ran = CliRunner().invoke(main, ["doctor", "-C", str(world.root)], env={"REMIT_TOKEN": "x"})
        doctor.append(next(line for line in ran.stdout.splitlines() if "clock and ledger" in line))
        answers.append(told)
    assert answers[0] == answers[1]
    assert doctor[0] == doctor[1]
    assert [shown[0] for shown in answers[0]] == ["0", "0", "2", "2"]
    assert "holds" in answers[0][0]


def test_the_progress_of_a_cancelled_run_is_not_revealed(worlds: Worlds) -> None:
    world = worlds[0]
    world.site.project.write("stopped.txt", "one\n")
    made = world.propose(plan_of(replace("a", "stopped.txt", "one", "two"), plan_id="stopped"))
    world.approve(made)
    assert world.ask("POST", f"/v1/plans/{made}/apply", {}, Prefer="wait=30").tree["state"] == "APPLIED"
    ran = world.site.desk.plans.read_report(PersonCaller(Person("link:ada"), "operator"), made)
    told = []
    for undone in (True, False):
        report = ran.report.model_copy(update={"status": "CANCELLED", "rollback_performed": undone})
        told.append(agent_report(ran.model_copy(update={"report": report})))
    assert told[0] == told[1]
    assert told[0].report.rollback_performed is None


def test_the_answer_to_a_proposal_does_not_wait_for_the_preview(
    worlds: Worlds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world, shown = worlds[0], []
    (tmp_path / "plan.json").write_bytes(PLANS["a query file"])
    monkeypatch.setenv("REMIT_STATE", world.site.workspace.environ["REMIT_STATE"])
    monkeypatch.setenv("REMIT_TOKEN", world.token.headers["Authorization"].split()[1])
    finish = PlanService.finish_previews

    def look_first(desk: PlanService, seconds: float) -> bool:
        shown.append(capsys.readouterr().out)
        return finish(desk, seconds)

    monkeypatch.setattr(PlanService, "finish_previews", look_first)
    main(["propose", str(tmp_path / "plan.json"), "-C", str(world.root)], standalone_mode=False)
    assert shown[0].startswith("Proposal ")
    proposal = shown[0].split()[1].rstrip(":")
    assert world.ask("POST", f"/v1/plans/{proposal}/cancel", {}).status == 200
