"""Errors over HTTP: one table, one form, and never a page of somebody else's."""

import pytest

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.web.http.problems import MEDIA_TYPE, STATUSES, status_of
from tests.support.web_server import WebSite, Who

MEMBERS = {"type", "title", "status", "detail", "instance", "code", "what", "where", "next_step"}


def test_every_reason_has_its_status() -> None:
    assert STATUSES.keys() == set(Reason)
    assert all(400 <= each.refused <= 599 and each.failed in {500, 503} for each in STATUSES.values())


def test_a_refusal_is_the_callers_fault_and_a_failure_the_machines() -> None:
    assert status_of(RefusedError(Reason.STATE_MISSING, "x")) == 404
    assert status_of(EnvironmentFailureError(Reason.STATE_MISSING, "x")) == 503
    assert status_of(EnvironmentFailureError(Reason.EVIDENCE_INVALID, "x")) == 500


def test_whatever_cannot_be_answered_is_a_problem_document(site: WebSite, subtests: pytest.Subtests) -> None:
    for method, path, headers, body, status in [
        ("GET", "/v1/nothing", {}, None, 404),
        ("GET", "/v1/plans/..%2f..%2fadmin", {}, None, 404),
        ("GET", "/v1/plans/..", {}, None, 404),
        ("GET", "/v1/tasks/%00", {}, None, 400),
        ("GET", "/v1/tasks/" + "x" * 201, {}, None, 400),
        ("GET", "/v1/tasks/a%5C..%5Cb", {}, None, 400),
        ("GET", "/v1/tasks/%E2%80%AEevil", {}, None, 404),
        ("DELETE", "/v1/tasks", {}, None, 405),
        ("GET", "/v1/plans", {"Accept": "text/csv"}, None, 406),
        ("GET", "/v1/plans?limit=0", {}, None, 400),
        ("GET", "/v1/plans?limit=1&limit=2", {}, None, 400),
        ("GET", "/v1/plans?token=x", {}, None, 400),
        ("GET", "/v1/plans?cursor=garbage", {}, None, 400),
        ("GET", "/v1/ledger/default/entries?since=yesterday", {}, None, 400),
        ("POST", "/v1/tasks", {"Content-Type": "text/plain"}, b"{}", 415),
        ("POST", "/v1/tasks", {"Content-Type": "application/json; charset=utf-16"}, b"{}", 415),
        ("POST", "/v1/tasks", {}, b"{", 400),
        ("POST", "/v1/tasks", {}, b'{"manifest": {}, "manifest": {}, "lease": {}}', 400),
        ("POST", "/v1/tasks", {}, b'{"manifest": {}, "lease": {}, "more": 1}', 400),
        ("POST", "/v1/tasks", {}, b"[" * 100_000, 400),
        ("POST", "/v1/tasks", {}, b'{"manifest": {"task_id": "' + b"x" * 200_000 + b'"}, "lease": {}}', 413),
        ("POST", "/v1/tasks", {"Idempotency-Key": "x" * 201}, b'{"manifest": {}, "lease": {}}', 400),
        ("POST", "/v1/goals", {}, b'{"utterance": "\\ud800"}', 400),
        ("POST", "/v1/plans/preview", {}, b'{"plan_id": "p"}', 400),
    ]:
        with subtests.test(method):
            who = site.admin if "/ledger" in path else site.bot
            answer = site.ask(method, path, who, body, headers)
            assert (answer.status, answer.kind) == (status, MEDIA_TYPE), answer.body
            found = answer.tree
            assert set(found) - {"errors"} == MEMBERS
            assert found["status"] == status
            assert found["code"] in {reason.value for reason in Reason}
            assert found["instance"] == f"urn:remit:request:{answer.headers['x-request-id']}"
            assert found["next_step"]
            assert str(site.workspace.state.path) not in answer.body.decode()
            assert "Traceback" not in answer.body.decode()


def test_an_override_of_the_method_is_not_heard(site: WebSite) -> None:
    answer = site.ask("GET", "/v1/tokens", site.admin, headers={"X-HTTP-Method-Override": "DELETE"})
    assert answer.status == 200


def test_a_token_in_the_address_is_none(site: WebSite) -> None:
    token = site.bot.headers["Authorization"].removeprefix("Bearer ")
    assert site.get(f"/v1/me?access_token={token}").status == 401


def test_a_person_receives_the_csrf_token_that_an_unsafe_request_needs(site: WebSite) -> None:
    cookie, token = {"Cookie": site.admin.headers["Cookie"]}, site.get("/v1/me", site.admin).tree["csrf"]
    assert site.post("/v1/ledger/verify", {}, Who(cookie)).status == 403
    whole = Who({**cookie, "X-Remit-CSRF": token, "Origin": site.url})
    assert site.post("/v1/ledger/verify", {}, whole).status in {200, 202}
    assert site.get("/v1/me", site.bot).tree["csrf"] is None


def test_a_bug_is_reported_without_its_secrets(site: WebSite, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("password=hunter2hunter2")

    monkeypatch.setattr(site.desk.plans, "list_proposals", broken)
    answer = site.get("/v1/plans", site.bot)
    assert (answer.status, answer.tree["code"]) == (500, "internal")
    assert "hunter2" not in answer.body.decode()


def test_an_unauthenticated_request_for_metrics_learns_of_the_scrapers_secret_and_of_no_token(site: WebSite) -> None:
    answer = site.get("/metrics")
    assert (answer.status, answer.headers["www-authenticate"]) == (401, 'Bearer realm="remit"')
    assert answer.tree["code"] == "authentication_required"
    assert "web.metrics.secret_file" in answer.tree["next_step"]
    assert "token" not in answer.tree["next_step"]
