"""Tasks and plans over HTTP: done once, followed by their ids, decided by people."""

import json
import os
from typing import Any

import pytest

from remit.contracts.tasks.result import ExecutionResult
from remit.web.http.idempotency import IdempotencyKeys
from tests.plans.project import plan_of, replace
from tests.support.task_workspace import file_task, manifest
from tests.support.web_server import Answer, WebSite, Who


def leased(site: WebSite, asked: bytes) -> dict[str, Any]:
    answer = site.post("/v1/leases", {"manifest": json.loads(asked)}, site.admin)
    assert answer.status == 201
    return {"manifest": json.loads(asked), "lease": answer.tree}


def proposed(site: WebSite, path: str, who: Who | None = None, **headers: str) -> Answer:
    site.project.write(path)
    plan = json.loads(plan_of(replace("a", path), plan_id=f"plan-{path}"))
    return site.post("/v1/plans", {"plan": plan, "note": "please"}, who or site.bot, **headers)


def test_a_leased_task_moves_a_file_once_and_its_result_is_signed(site: WebSite) -> None:
    source, target = site.base / "one", site.base / "two"
    source.write_text("content")
    body = leased(site, file_task("move-1", "FILE_MOVE", source, target))
    first = site.post("/v1/tasks", body, site.bot, Prefer="wait=20")
    assert first.status == 200, first.body
    assert target.read_text() == "content"
    result = ExecutionResult.from_tree(first.tree["result"])
    assert result.status == "SUCCESS"
    again = site.post("/v1/tasks", body, site.bot, Prefer="wait=20").tree
    assert (again["stored"], again["result"]) == (True, first.tree["result"])
    assert site.get("/v1/tasks/move-1", site.bot).tree["result"] == first.tree["result"]


def test_a_caller_who_does_not_want_to_wait_receives_the_location_of_the_task(site: WebSite) -> None:
    body = leased(site, manifest("slow/1"))
    begun = site.post("/v1/tasks", body, site.bot, Prefer="respond-async")
    assert begun.status in {200, 202}
    body = leased(site, manifest("slow 2"))
    begun = site.post("/v1/tasks", body, site.bot, Prefer="wait=0")
    if begun.status == 202:
        assert begun.headers["retry-after"] == "1"
        assert begun.headers["location"] == "/v1/tasks/slow%202"
    ended = site.get("/v1/tasks/slow%202", site.bot, Prefer="wait=20")
    assert (ended.status, ended.tree["state"]) == (200, "done")


def test_a_refusal_of_the_engine_comes_with_its_signed_result(site: WebSite) -> None:
    body = leased(site, manifest("other-1"))
    body["manifest"]["task_id"] = "other-2"
    answer = site.post("/v1/tasks", body, site.bot, Prefer="wait=20")
    assert (answer.status, answer.tree["code"]) == (403, "signature_invalid")
    told = answer.tree["answer"]
    assert (told["state"], told["result"]["error"]["error_code"]) == ("refused", "INVALID_LEASE")


def test_the_same_key_with_another_body_is_a_conflict(site: WebSite) -> None:
    first, second = leased(site, manifest("keyed-1")), leased(site, manifest("keyed-2"))
    assert site.post("/v1/tasks", first, site.bot, Idempotency_Key="k", Prefer="wait=20").status == 200
    assert site.post("/v1/tasks", first, site.bot, Idempotency_Key="k", Prefer="wait=20").status == 200
    answer = site.post("/v1/tasks", second, site.bot, Idempotency_Key="k", Prefer="wait=20")
    assert (answer.status, answer.tree["code"]) == (409, "idempotency_conflict")
    assert site.get("/v1/tasks/keyed-2", site.bot).status == 404
    # Another caller's keys are his own.
    assert site.post("/v1/tasks", second, site.admin, Idempotency_Key="k", Prefer="wait=20").status == 200


def test_a_plan_is_proposed_approved_applied_and_rolled_back(site: WebSite) -> None:
    made = proposed(site, "life.txt", Idempotency_Key="life")
    assert (made.status, made.tree["state"]) == (201, "PENDING")
    place = made.headers["location"]
    assert proposed(site, "life.txt", Idempotency_Key="life").tree["proposal_id"] == made.tree["proposal_id"]
    assert proposed(site, "else.txt", Idempotency_Key="life").status == 409
    assert site.get(place, site.bot).tree["state"] == "PENDING"
    early = site.post(f"{place}/apply", {}, site.bot)
    assert (early.status, early.tree["code"]) == (409, "approval_pending")

    approver = site.person("approver")
    shown = site.get(f"{place}/preview", approver).tree
    said = {"approved": True, "preview_digest": shown["preview_digest"]}
    assert site.post(f"{place}/decision", said, site.bot).status == 403
    assert site.post(f"{place}/decision", {**said, "preview_digest": None}, approver).status in {400, 409}
    assert site.post(f"{place}/decision", said, approver).tree["state"] == "APPROVED"

    before = site.project.read("life.txt")
    done = site.post(f"{place}/apply", {}, site.bot, Prefer="wait=30")
    assert (done.status, done.tree["state"]) == (200, "APPLIED")
    assert site.project.read("life.txt") != before
    assert site.get(f"{place}/report", site.bot).tree["report"]["status"] == "SUCCESS"
    assert site.get(f"{place}/report", approver).tree["status"]["status"] == "SUCCESS"
    assert site.get("/v1/runs", approver).tree["items"][0]["proposal_id"] == made.tree["proposal_id"]

    site.project.write("life.txt", "somebody was here\n")
    drifted = site.post(f"{place}/undo", {}, site.bot)
    assert (drifted.status, drifted.tree["code"]) == (409, "drifted")
    assert drifted.tree["answer"]["drifted"] is None, "which files those are is for people"
    assert site.post(f"{place}/undo", {"force": True}, site.bot).status == 403
    operator = site.person("operator")
    looked = site.get(f"{place}/undo", operator).tree
    assert [each["path"] for each in looked["drifted"]] == ["life.txt"]
    site.project.write("life.txt", "and again\n")
    for digest in (None, looked["drift_digest"]):  # not looked at, or not as it was looked at
        again = site.post(f"{place}/undo", {"force": True, "drift_digest": digest}, operator)
        assert (again.status, again.tree["code"]) == (409, "drifted"), digest
        assert site.project.read("life.txt") == "and again\n"
    digest = site.get(f"{place}/undo", operator).tree["drift_digest"]
    undone = site.post(f"{place}/undo", {"force": True, "drift_digest": digest}, operator)
    assert (undone.status, undone.tree["status"]) == (200, "EXECUTED")
    assert site.project.read("life.txt") == before


def test_a_server_whose_disk_is_full_is_not_ready(site: WebSite, monkeypatch: pytest.MonkeyPatch) -> None:
    assert site.get("/readyz").status == 200
    full = os.statvfs_result((4096, 4096, 1_000_000, 100, 100, 1_000_000, 900_000, 900_000, 0, 255))
    real, state = os.statvfs, site.workspace.state.path
    monkeypatch.setattr(os, "statvfs", lambda path: full if path == state else real(path))
    answer = site.get("/readyz")
    failing = [each["name"] for each in answer.tree["checks"] if not each["ok"]]
    assert (answer.status, answer.tree["ready"], failing) == (503, False, ["free space"])


def test_files_that_changed_after_the_look_need_another_look(site: WebSite) -> None:
    place = proposed(site, "moved.txt").headers["location"]
    shown = site.get(f"{place}/preview", site.admin).tree
    site.project.write("moved.txt", "one\ntwo, and more\nthree\n")
    said = {"approved": True, "preview_digest": shown["preview_digest"]}
    answer = site.post(f"{place}/decision", said, site.admin)
    assert (answer.status, answer.tree["code"]) == (409, "hash_mismatch")


def test_an_agent_sees_nothing_of_another_agents(site: WebSite) -> None:
    place = proposed(site, "mine.txt").headers["location"]
    stranger = site.agent("stranger", "plan.propose", "plan.apply", "plan.undo", "task.run")
    for method, path, body in (
        ("GET", place, None),
        ("GET", f"{place}/preview", None),
        ("POST", f"{place}/apply", {}),
        ("POST", f"{place}/cancel", {}),
        ("POST", f"{place}/undo", {}),
        ("GET", f"{place}/report", None),
        ("GET", "/v1/tasks/move-1", None),
    ):
        answer = site.ask(method, path, stranger, body)
        assert answer.status == 404, (method, path, answer.body)
    assert site.get("/v1/plans", stranger).tree["items"] == []


def test_a_list_goes_on_where_its_page_ended(site: WebSite) -> None:
    for number in range(3):
        proposed(site, f"page{number}.txt")
    seen: list[str] = []
    query = "limit=1"
    while True:
        page = site.get(f"/v1/plans?{query}", site.bot).tree
        seen += [item["proposal_id"] for item in page["items"]]
        if page["next"] is None:
            break
        query = f"limit=1&cursor={page['next']}"
    whole = site.get("/v1/plans?limit=200", site.bot).tree["items"]
    assert seen == [item["proposal_id"] for item in whole]
    assert len(seen) >= 3


def test_a_token_is_issued_once_under_a_key_and_revoking_it_voids_what_it_proposed(site: WebSite) -> None:
    wish = {"sub": "newcomer", "caps": ["plan.propose"]}
    issued = site.post("/v1/tokens", wish, site.admin, Idempotency_Key="token")
    assert issued.status == 201
    again = site.post("/v1/tokens", wish, site.admin, Idempotency_Key="token")
    assert (again.status, again.tree["code"]) == (409, "idempotency_conflict")
    assert issued.tree["token"].encode() not in again.body
    newcomer = Who({"Authorization": f"Bearer {issued.tree['token']}"})
    place = proposed(site, "void.txt", newcomer).headers["location"]
    revoked = site.post(f"/v1/tokens/{issued.tree['jti']}/revoke", {"reason": "over"}, site.admin)
    assert revoked.tree == {"jti": issued.tree["jti"]}
    assert site.get(place, newcomer).status == 401
    assert site.get(place, site.admin).tree["state"] == "VOID"


def test_an_idempotency_key_repeats_no_answer_to_a_person_who_lost_the_right_to_it(site: WebSite) -> None:
    wishes = {
        "/v1/tokens": {"sub": "again", "caps": ["plan.propose"]},
        "/v1/people": {"name": "guest", "role": "viewer"},
        "/v1/leases": {"manifest": json.loads(manifest("again"))},
    }
    once = site.person("admin", "once")
    for path, wish in wishes.items():
        assert site.post(path, wish, once, Idempotency_Key="k").status == 201
        assert site.post(path, wish, once, Idempotency_Key="k").status == (201 if path == "/v1/leases" else 409)
    now = site.person("viewer", "once")
    for path, wish in wishes.items():
        refused = site.post(path, wish, now, Idempotency_Key="k")
        assert (refused.status, refused.tree["code"]) == (403, "permission_denied"), path


def test_people_are_invited_and_removed(site: WebSite) -> None:
    made = site.post("/v1/people", {"name": "vera", "role": "viewer"}, site.admin)
    assert made.status == 201
    assert made.tree["link"].startswith(f"{site.url}/login#")
    assert "link:vera" in [each["id"] for each in site.get("/v1/people", site.admin).tree["items"]]
    assert site.post("/v1/people/remove", {"name": "vera"}, site.admin).tree == {"person_id": "link:vera"}
    assert site.post("/v1/people/remove", {"name": "vera"}, site.admin).status == 404


def test_the_record_is_read_verified_and_exported(site: WebSite) -> None:
    entries = site.get("/v1/ledger/default/entries?kind=plan.&limit=5", site.admin).tree["items"]
    assert all(each["entry"]["kind"].startswith("plan.") for each in entries)
    newest = site.get("/v1/ledger/default/entries?limit=1", site.admin).tree["items"][0]["entry"]
    one = site.get(f"/v1/ledger/default/entries/{newest['seq']}", site.admin).tree
    assert (one["problem"], one["entry"]) == (None, newest)
    verdict = site.post("/v1/ledger/verify", {}, site.admin, Prefer="wait=30").tree
    assert verdict["verdict"]["holds"] is True
    bundle = site.get("/v1/ledger/default/bundle", site.admin)
    assert bundle.kind.startswith("application/x-ndjson")
    assert json.loads(bundle.body.splitlines()[0])["bundle"] == "remit-evidence"
    assert {head["tenant_id"] for head in site.get("/v1/ledger/heads", site.admin).tree["items"]} == {"default"}


def test_a_goal_asked_for_under_a_key_is_that_goal_alone(site: WebSite) -> None:
    asked = {"Idempotency_Key": "g", "Prefer": "wait=30"}
    first = site.post("/v1/goals", {"utterance": "water the plants"}, site.bot, **asked)
    second = site.post("/v1/goals", {"utterance": "sell the house"}, site.bot, **asked)
    assert (first.status, first.tree["state"]) == (200, "refused"), first.body
    assert (second.status, second.tree["code"]) == (409, "idempotency_conflict")
    site.app.state.keys = IdempotencyKeys()  # as after a restart: the goal's own id still says no
    third = site.post("/v1/goals", {"utterance": "sell the house"}, site.bot, **asked)
    assert third.status == 409 or third.tree["state"] == "refused", third.body
    place = f"/v1/goals/acme/{first.tree['correlation_id']}"
    assert site.get(place, site.bot).tree["state"] == "refused"
    assert site.get(f"/v1/goals/default/{first.tree['correlation_id']}", site.bot).status == 404
    assert site.get(place, site.agent("stranger")).status == 404


def test_a_missing_body_is_an_empty_object_where_no_field_is_required(site: WebSite) -> None:
    name = proposed(site, "bare.txt").tree["proposal_id"]
    early = site.ask("POST", f"/v1/plans/{name}/undo", site.bot)
    assert (early.status, early.tree["code"]) == (409, "transition_invalid")
    unasked = site.ask("POST", f"/v1/plans/{name}/apply", site.bot, headers={"Content-Type": "application/json"})
    assert (unasked.status, unasked.tree["code"]) == (409, "approval_pending")
    assert site.ask("POST", f"/v1/plans/{name}/cancel", site.bot).tree["state"] == "VOID"
    # Where something must be said, or something else was, it is as before.
    assert site.ask("POST", "/v1/plans", site.bot).status == 400
    assert site.ask("POST", f"/v1/plans/{name}/apply", site.bot, b"", {"Content-Type": "text/plain"}).status == 415
    odd = site.ask("POST", f"/v1/plans/{name}/apply", site.bot, b'{"x": 1}')
    assert (odd.status, odd.tree["next_step"].startswith("Send no body, or {}.")) == (400, True)
    described = site.get("/v1/openapi.json").tree["paths"]
    needs = {
        path: methods["post"]["requestBody"]["required"] for path, methods in described.items() if "post" in methods
    }
    assert needs["/v1/plans"]
    assert not needs["/v1/plans/{proposal_id}/apply"]
