"""`remit serve` as a process: how it begins, how it ends, and how it comes back after it was killed."""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from remit.services.base.server_lock import find_server
from tests.plans.project import Project, plan_of, replace
from tests.support.web_server import Answer, Who, agent_of, ask, person_of

SERVE = [sys.executable, "-m", "remit", "serve", "--port", "0", "--json"]


class Process:
    """A server that has said where it listens."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        self.said: dict[str, Any] = json.loads(line)
        self.port = int(self.said["url"].rpartition(":")[2])

    def get(self, path: str, who: Who | None = None) -> Answer:
        return ask(self.port, "GET", path, who or Who({}))

    def post(self, path: str, body: Any, who: Who, **headers: str) -> Answer:
        return ask(self.port, "POST", path, who, body, headers)

    def ended(self, seconds: float = 25) -> tuple[int, str]:
        _, errors = self.process.communicate(timeout=seconds)
        return self.process.returncode, errors


@contextmanager
def served(project: Project, **environ: str) -> Iterator[Process]:
    command = [*SERVE, "-C", str(project.root)]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("REMIT_")}
    process = subprocess.Popen(
        command,
        env={**clean, **project.environ, **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Process(process)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path)
    yield made
    made.close()


def test_it_says_where_it_listens_is_found_there_and_ends_in_order(project: Project) -> None:
    assert find_server(project.workspace.state) is None
    with served(project) as server:
        assert server.get("/readyz").tree["ready"] is True
        assert server.said["login"].startswith(f"{server.said['url']}/login#")
        found = find_server(project.workspace.state)
        assert found is not None
        assert (found.url, found.pid) == (server.said["url"], server.process.pid)

        second = subprocess.run(
            [*SERVE, "-C", str(project.root)],
            env={**os.environ, **project.environ},
            capture_output=True,
            text=True,
            check=False,
        )
        assert second.returncode == 2
        assert server.said["url"] in second.stdout + second.stderr

        admin = person_of(project.workspace, server.port, "admin")
        with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)) as listener:
            listener.request("GET", "/v1/events", headers=dict(admin.headers))
            stream = listener.getresponse()
            assert stream.readline() == b"retry: 2000\n"
            server.process.send_signal(signal.SIGTERM)
            stream.read()  # ends: nobody who listens keeps it alive
        code, errors = server.ended()
        assert code == 0, errors
        assert "Traceback" not in errors
    assert find_server(project.workspace.state) is None


@pytest.mark.long  # tests/crash/web does so at every step, and a slice of it runs each time
def test_after_a_kill_work_is_settled_and_what_waits_still_waits(project: Project) -> None:
    for name in ("one", "two"):
        project.write(f"{name}.txt")
    bot = agent_of(project.workspace, "bot", "plan.propose", "plan.apply")
    with served(project, REMIT_FAULT="road.effect_done") as server:
        admin = person_of(project.workspace, server.port, "admin")
        places = []
        for name in ("one", "two"):
            plan = json.loads(plan_of(replace("a", f"{name}.txt"), plan_id=name))
            places.append(server.post("/v1/plans", {"plan": plan}, bot).headers["location"])
        shown = server.get(f"{places[0]}/preview", admin).tree
        said = {"approved": True, "preview_digest": shown["preview_digest"]}
        assert server.post(f"{places[0]}/decision", said, admin).tree["state"] == "APPROVED"
        with pytest.raises((http.client.HTTPException, OSError)):
            server.post(f"{places[0]}/apply", {}, bot, Prefer="wait=30")
        assert server.ended()[0] == -signal.SIGKILL
    # Who starts it now is an agent: it gets no link, and everything else.
    with served(project, REMIT_AGENT="bot", REMIT_LOG="info") as server:
        assert (server.said["recovered"], server.said["login"]) == (1, None)
        again = Who({**admin.headers, "Origin": f"http://127.0.0.1:{server.port}"})
        assert server.get(places[0], bot).tree["state"] == "APPLIED"
        assert server.get(places[1], again).tree["state"] == "PENDING"
        # The same request again does nothing twice.
        assert server.post(f"{places[0]}/apply", {}, bot, Prefer="wait=30").tree["state"] == "APPLIED"
        server.process.send_signal(signal.SIGINT)
        code, errors = server.ended()
    assert code == 0
    assert "an agent cannot do it" in errors
    records = [json.loads(line) for line in errors.splitlines() if line.startswith("{")]
    answered = [each["fields"] for each in records if each["message"] == "request answered"]
    assert [(each["route"], each["caller"]) for each in answered[:2]] == [
        ("/v1/plans/{proposal_id}", "agent:bot"),
        ("/v1/plans/{proposal_id}", "link:admin"),
    ]
