"""Threads are shared out: one agent's slow work keeps nobody else waiting, and health needs none."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from remit.contracts.services.common import TaskAnswer
from remit.web.security.fair_share import AGENT_TURNS, ANONYMOUS_THREADS, REQUESTS_AT_ONCE
from tests.support.web_server import NOBODY, Answer, WebSite, Who


class Slow:
    """Work that takes until it is let go; who is in it is counted."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.came = threading.Semaphore(0)
        self._inside = 0
        self.most = 0
        self._lock = threading.Lock()

    def __call__(self, _caller: object, task_id: str, _wait: float) -> TaskAnswer:
        with self._lock:
            self._inside += 1
            self.most = max(self.most, self._inside)
        self.came.release()
        assert self.go.wait(60)
        with self._lock:
            self._inside -= 1
        return TaskAnswer(state="running", task_id=task_id)


@contextmanager
def ending(go: threading.Event) -> Iterator[None]:
    """Whatever fails, those who wait are let go."""
    try:
        yield
    finally:
        go.set()


@pytest.fixture
def slow(site: WebSite, monkeypatch: pytest.MonkeyPatch) -> Slow:
    made = Slow()
    monkeypatch.setattr(site.desk.tasks, "get", made)
    return made


def test_slow_work_of_one_agent_uses_its_own_share_and_every_other_caller_is_answered(
    site: WebSite, slow: Slow
) -> None:
    greedy, other = site.agent("greedy"), site.agent("other")
    with ThreadPoolExecutor(REQUESTS_AT_ONCE + 2) as callers, ending(slow.go):

        def ask(who: Who) -> Future[Answer]:
            return callers.submit(site.get, "/v1/tasks/x", who)

        asked = [ask(greedy) for _ in range(REQUESTS_AT_ONCE)]
        for _ in range(AGENT_TURNS.each):
            assert slow.came.acquire(timeout=20)
        for path, who, status in (
            ("/healthz", NOBODY, 200),
            ("/healthz", other, 200),
            ("/login", NOBODY, 200),
            ("/v1/me", other, 200),
            ("/v1/me", site.admin, 200),
            ("/inbox", site.admin, 200),
        ):
            assert site.get(path, who).status == status, path
        assert slow.most == AGENT_TURNS.each
        late = ask(other)
        assert slow.came.acquire(timeout=20)
        refused = site.get("/v1/me", greedy)  # as much under way as one caller may have
        assert (refused.status, refused.tree["code"]) == (429, "resource_exhausted")
        slow.go.set()
        assert {each.result(60).status for each in (*asked, late)} == {202}
    assert slow.most == AGENT_TURNS.each + 1
    assert site.get("/v1/me", greedy).status == 200


def test_strangers_do_not_take_the_threads_of_others(site: WebSite, monkeypatch: pytest.MonkeyPatch) -> None:
    came, go = threading.Semaphore(0), threading.Event()

    def look(*_: Any) -> Any:
        came.release()
        assert go.wait(60)
        raise OSError

    monkeypatch.setattr("remit.web.api.health.check_readiness", look)
    with ThreadPoolExecutor(40) as callers, ending(go):
        asked = [callers.submit(site.get, "/readyz") for _ in range(40)]
        for _ in range(ANONYMOUS_THREADS):
            assert came.acquire(timeout=20)
        assert not came.acquire(blocking=False)
        assert site.get("/healthz").status == 200
        assert site.get("/inbox", site.admin).status == 200
        go.set()
        assert {each.result(60).status for each in asked} == {500}
