"""A real server as it is watched: who reads its metrics, what they tell, and what is in no record of it."""

import io
import json
import logging
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families
from starlette.requests import HTTPConnection

from remit.browser_daemon.socket_path import DaemonFolder
from remit.contracts.config.web import Web
from remit.core.errors import EnvironmentFailureError
from remit.observability import tracing
from remit.observability.browser_metrics import SUCCESS, Metrics
from remit.observability.logs import configure_logging
from remit.web import metrics as metrics_route
from remit.web.app import NO_TELEMETRY
from remit.web.config.settings import WebSettings
from remit.web.security.scrapers import is_from_this_machine, read_secret
from tests.mcp_server.mcp_office import over_http, talking
from tests.support.task_workspace import file_task, manifest
from tests.support.web_server import NOBODY, Answer, WebSite, Who

SECRET = "scrape-me-if-you-know-this-0123456789"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebSite]:
    folder = tmp_path_factory.mktemp("watched")
    secret = folder / "secret"
    secret.touch(0o600)
    secret.write_text(f"{SECRET}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics_route, "FRESH_SECONDS", 0.0)
        made = WebSite(folder, web={"metrics": {"secret_file": str(secret)}})
        yield made
        made.close()


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    root, ours = logging.getLogger(), logging.getLogger("remit")
    levels = root.level, ours.level
    sink = io.StringIO()
    handler = configure_logging(sink, logging.DEBUG)
    root.setLevel(logging.DEBUG)  # other libraries too: they know the same secrets
    yield sink
    root.removeHandler(handler)
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


def _bearer(text: str) -> Who:
    return Who({"Authorization": f"Bearer {text}"})


def _run(site: WebSite, task: bytes, who: Who, **headers: str) -> Answer:
    lease = json.loads(site.workspace.issue_lease(task).canonical())
    return site.post("/v1/tasks", {"manifest": json.loads(task), "lease": lease}, who, Prefer="wait=20", **headers)


def _metrics(site: WebSite) -> dict[tuple[Any, ...], float]:
    answer = site.get("/metrics", _bearer(SECRET))
    assert answer.status == 200
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }


def _records(sink: io.StringIO, message: str) -> list[dict[str, Any]]:
    for _ in range(2_000):
        found = [one for one in map(json.loads, sink.getvalue().splitlines()) if one.get("message") == message]
        if found:
            return found
        threading.Event().wait(0.005)
    raise AssertionError(sink.getvalue())


def test_only_people_and_the_scraper_can_read_the_metrics(site: WebSite) -> None:
    expected = {
        "nobody": (NOBODY, 401),
        "an agent": (site.agent("scraping-bot", "plan.propose"), 403),
        "a viewer": (site.person("viewer"), 200),
        "the scraper": (_bearer(SECRET), 200),
        "a wrong secret": (_bearer(SECRET[:-1]), 401),
        "two of them": (Who({"Authorization": f"Bearer {SECRET}, Bearer {SECRET}"}), 401),
        "the secret otherwise": (Who({"Authorization": f"Basic {SECRET}"}), 401),
    }
    assert {name: site.get("/metrics", who).status for name, (who, _) in expected.items()} == {
        name: status for name, (_, status) in expected.items()
    }


def test_the_scrapers_secret_opens_nothing_else(site: WebSite) -> None:
    for path in ("/v1/inbox", "/v1/tasks/x", "/metrics/", "/mcp", "/inbox"):
        assert site.get(path, _bearer(SECRET)).status in {401, 404}, path
    assert site.post("/metrics", {}, _bearer(SECRET)).status in {401, 405}


def test_a_secret_that_others_can_read_or_guess_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.touch(0o600)
    path.write_text(SECRET)
    assert read_secret(str(path)) == SECRET.encode()
    path.chmod(0o640)
    with pytest.raises(EnvironmentFailureError, match="only its owner"):
        read_secret(str(path))
    path.chmod(0o600)
    for text in ("short", "x" * 2_000, ""):
        path.write_text(text)
        with pytest.raises(EnvironmentFailureError, match="characters"):
            read_secret(str(path))
    (tmp_path / "link").symlink_to(path)
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("link", "pipe", "gone"):
        with pytest.raises(EnvironmentFailureError):
            read_secret(str(tmp_path / name))


def test_the_metrics_are_open_on_loopback_only_if_configured_and_without_a_proxy_in_front() -> None:
    def asked(peer: str = "127.0.0.1", host: str = "127.0.0.1", **web: Any) -> bool:
        given = web.pop("headers", [])
        settings = WebSettings.of(Web.from_tree({"host": host, "metrics": {"open_on_loopback": True}, **web}))
        scope = {"type": "http", "headers": given, "client": (peer, 1)}
        return is_from_this_machine(HTTPConnection(scope), settings)

    assert asked()
    assert asked(peer="::1", host="::1")
    assert not asked(metrics={})
    assert not asked(peer="192.0.2.7")
    assert not asked(host="0.0.0.0", insecure_http=True)  # noqa: S104 - refused, that is the point
    assert not asked(public_url="https://remit.example")
    assert not asked(headers=[(b"x-forwarded-for", b"192.0.2.7")])
    assert not asked(headers=[(b"forwarded", b"for=192.0.2.7")])


def test_work_done_over_http_is_in_the_metrics_by_route_and_operation(site: WebSite) -> None:
    agent = site.agent("counted-bot", "task.run")
    before = _metrics(site)
    assert _run(site, manifest("metered-giveaway"), agent).status == 200
    assert site.get("/v1/tasks/metered-giveaway", agent).status == 200
    assert site.get("/nothing-giveaway").status in {401, 404}
    body = site.get("/metrics", _bearer(SECRET)).body.decode()
    after = _metrics(site)

    def grown(*key: Any) -> float:
        return after.get(key, 0) - before.get(key, 0)

    assert grown("remit_road_requests_total", ("door", "task"), ("ending", "done")) == 1
    assert grown("remit_http_requests_total", ("method", "POST"), ("route", "/v1/tasks"), ("status", "200")) == 1
    of_one = (("method", "GET"), ("route", "/v1/tasks/{task_id}"), ("status", "200"))
    assert grown("remit_http_requests_total", *of_one) == 1
    assert grown("remit_ledger_length") >= 2
    assert after[("remit_jobs", ("state", "running"))] == 0
    assert after[("remit_questions_open", ("kind", "plan"))] == 0
    assert after[("remit_browser_host_up",)] == 0
    assert after[("abos_executor_approvals_pending",)] == 0
    assert after[("process_resident_memory_bytes",)] > 1_000_000
    assert "giveaway" not in body


def test_what_the_browser_host_counted_is_passed_on(site: WebSite) -> None:
    counted = Metrics(lambda: 0)
    counted.count("navigate", SUCCESS, 0.2)
    place = DaemonFolder.of(site.workspace.state)
    place.make()

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            assert connection.recv(1_000).startswith(b"GET /metrics ")
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + counted.render())

    with place.listen() as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        found = _metrics(site)
        thread.join()
    place.clear()
    assert found[("remit_browser_host_up",)] == 1
    assert found["abos_executor_requests_total", ("action", "navigate"), ("status", "success")] == 1
    assert found["abos_executor_duration_seconds_bucket", ("action", "navigate"), ("le", "0.5")] == 1


def test_the_log_records_of_the_engine_carry_the_id_of_their_request(site: WebSite, logged: io.StringIO) -> None:
    answer = _run(site, manifest("followed"), site.bot, X_Request_Id="from-the-caller-1")
    assert answer.headers["x-request-id"] == "from-the-caller-1"
    assert {one["request_id"] for one in _records(logged, "outcome recorded")} == {"from-the-caller-1"}
    (told,) = [one for one in _records(logged, "request answered") if one["request_id"] == "from-the-caller-1"]
    assert told["fields"]["route"] == "/v1/tasks"
    assert told["fields"]["caller"] == "agent:bot"
    refused = site.get("/v1/tasks/not-there", site.bot, X_Request_Id="from-the-caller-2")
    assert refused.tree["instance"] == "urn:remit:request:from-the-caller-2"


def test_no_token_cookie_code_or_query_is_in_any_record(site: WebSite, logged: io.StringIO) -> None:
    people = site.workspace.people
    invited = people.invite("logged-person", "operator", actor="os:test")
    origin = f"http://127.0.0.1:{site.settings.port}"
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": origin}
    entered = site.ask("POST", "/login", body=f"code={invited.code}".encode(), headers=form)
    assert entered.status == 303
    cookie = entered.headers["set-cookie"].partition("=")[2].partition(";")[0]
    person = Who({"Cookie": f"remit_session={cookie}", "Origin": origin, "X-Remit-CSRF": "guessed-csrf-token"})
    agent = site.agent("logged-bot", "task.run")
    token = agent.headers["Authorization"].removeprefix("Bearer ")
    task = file_task("logged-task", "FILE_MOVE", site.base / "from", site.base / "to")
    _run(site, task, agent)
    site.get("/v1/tasks/logged-task?code=query-secret-1", agent)
    site.get("/login?next=/x&code=query-secret-2")
    site.get("/v1/inbox", person)
    site.post("/v1/tasks", b"{broken", person)
    site.get("/v1/inbox", _bearer(token[:-4] + "AAAA"))
    site.get("/metrics", _bearer(SECRET))
    site.get("/metrics", _bearer(f"{SECRET}-wrong"))
    _records(logged, "request answered")
    told = logged.getvalue()
    assert len(told.splitlines()) > 8
    for secret in (token, token.split(".")[2], cookie, invited.code, SECRET, "query-secret", "guessed-csrf-token"):
        assert secret not in told


def test_the_frameworks_own_telemetry_is_off_whatever_the_environment_says(site: WebSite) -> None:
    """It would send queries, and exceptions with their texts, to wherever a provider of this process leads."""
    told = site.app._telemetry  # noqa: SLF001 - there is no other way to ask
    assert {name: told[name] for name in NO_TELEMETRY} == NO_TELEMETRY  # type: ignore[literal-required]
    assert not any(NO_TELEMETRY.values())
    assert not site.app._native_telemetry.enabled()  # noqa: SLF001 - as above


def test_each_call_of_a_session_of_mcp_belongs_to_its_own_request(site: WebSite, logged: io.StringIO) -> None:
    """They all run in one task, which began with another request: the first."""
    token = site.agent("mcp-bot", "task.run").headers["Authorization"].removeprefix("Bearer ")
    exporter = InMemorySpanExporter()
    with tracing.tracing({}, exporter), talking(over_http(f"{site.url}/mcp", token)) as talk:
        for name in ("mcp-1", "mcp-2"):
            task = manifest(name)
            lease = json.loads(site.workspace.issue_lease(task).canonical())
            talk.ok("run_task", manifest=json.loads(task), lease=lease, wait_seconds=20)
    intents = _records(logged, "intent recorded")
    assert [one["task_id"] for one in intents] == ["mcp-1", "mcp-2"]
    answered = {one["request_id"] for one in _records(logged, "request answered") if one["fields"]["route"] == "/mcp"}
    assert len({one["request_id"] for one in intents}) == 2
    assert {one["request_id"] for one in intents} <= answered
    spans = exporter.get_finished_spans()
    posts = {span.context.span_id for span in spans if span.name == "POST /mcp" and span.context is not None}
    above = [span.parent.span_id for span in spans if span.name == "remit task" and span.parent is not None]
    assert len(set(above)) == 2
    assert set(above) <= posts
