"""What a request says beside its body: how long it waits, and the key that it is known by."""

import gc
import weakref
from pathlib import Path

import pytest
from starlette.responses import Response

from remit.contracts.services.common import TaskAnswer
from remit.core.errors import Reason, RefusedError
from remit.identity.callers import AgentCaller
from remit.web.http.idempotency import MOST, SECONDS, IdempotencyKeys, derive_id
from remit.web.http.request import DEFAULT_WAIT, LONGEST_WAIT, location, parse_wait
from remit.web.security.fair_share import WAITING_EACH
from tests.support.web_server import WebSite

ROOT = Path(__file__).resolve().parents[3]


def test_a_caller_waits_as_long_as_it_prefers_within_bounds(subtests: pytest.Subtests) -> None:
    for preferences, seconds in [
        ([], DEFAULT_WAIT),
        (["wait=0"], 0.0),
        (["wait=7"], 7.0),
        (["respond-async, WAIT=7"], 7.0),
        (["respond-async"], 0.0),
        (["return=minimal", 'wait="9"'], 9.0),
        (["wait=999999999"], LONGEST_WAIT),
        (["wait=-1"], DEFAULT_WAIT),
        (["wait=1e9"], DEFAULT_WAIT),
        (["wait=" + "9" * 5_000], DEFAULT_WAIT),
    ]:
        with subtests.test(preferences=preferences, seconds=seconds):
            assert parse_wait(preferences) == seconds


def test_an_id_that_cannot_stand_in_a_path_has_no_address() -> None:
    assert location("/v1/tasks", "a b?#ü") == "/v1/tasks/a%20b%3F%23%C3%BC"
    assert [location("/v1/tasks", each) for each in ("a/b", "..", ".", "a\\b", " a")] == [""] * 5


def test_a_key_gives_the_same_answer_until_it_is_forgotten() -> None:
    now, made = [0.0], []
    keys = IdempotencyKeys(lambda: now[0])

    def make() -> Response:
        made.append(1)
        return Response(str(len(made)))

    assert keys.run_once("a", "issue", "k", b"x", make) is keys.run_once("a", "issue", "k", b"x", make)
    assert keys.run_once("b", "issue", "k", b"x", make).body == b"2"
    with pytest.raises(RefusedError) as conflict:
        keys.run_once("a", "issue", "k", b"y", make)
    assert conflict.value.reason is Reason.IDEMPOTENCY_CONFLICT
    now[0] = SECONDS
    assert keys.run_once("a", "issue", "k", b"y", make).body == b"3"


def test_a_secret_is_returned_once_and_not_kept() -> None:
    keys = IdempotencyKeys()
    made = keys.run_once("a", "issue", "k", b"x", lambda: Response("secret"), is_secret=True)
    with pytest.raises(RefusedError, match="sent only once") as told:
        keys.run_once("a", "issue", "k", b"x", Response, is_secret=True)
    assert told.value.reason is Reason.IDEMPOTENCY_CONFLICT
    held = weakref.ref(made)
    del made
    gc.collect()
    assert held() is None


def test_a_key_whose_request_failed_can_be_used_again_and_one_under_way_cannot() -> None:
    keys = IdempotencyKeys()

    def nested() -> Response:
        with pytest.raises(RefusedError) as busy:
            keys.run_once("a", "issue", "k", b"x", nested)
        assert busy.value.reason is Reason.IN_PROGRESS
        raise RefusedError(Reason.DISK_FULL, "no room")

    with pytest.raises(RefusedError, match="no room"):
        keys.run_once("a", "issue", "k", b"x", nested)
    assert keys.run_once("a", "issue", "k", b"other", Response).status_code == 200


def test_the_number_of_stored_keys_is_bounded() -> None:
    keys = IdempotencyKeys()
    for number in range(MOST + 10):
        keys.require_same("a", "run", str(number), b"x")
    assert len(keys) == MOST


def test_the_id_under_a_key_is_the_callers_own() -> None:
    assert derive_id("agent:a", "k") == derive_id("agent:a", "k")
    assert len({derive_id("agent:a", "k"), derive_id("agent:b", "k"), derive_id("agent:a", "l")}) == 3


def test_no_caller_waits_where_too_many_wait_already(site: WebSite, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    def get(_caller: object, task_id: str, wait: float) -> TaskAnswer:
        waits.append(wait)
        return TaskAnswer(state="running", task_id=task_id)

    monkeypatch.setattr(site.desk.tasks, "get", get)
    places, other = site.app.state.waiting, site.agent("another")
    bot = AgentCaller.by(site.workspace.tokens, site.bot.headers["Authorization"][7:])
    assert site.get("/v1/tasks/x", site.bot, Prefer="wait=30").status == 202
    taken = 0
    while places.acquire(bot):
        taken += 1
    for who in (site.bot, other):
        assert site.get("/v1/tasks/x", who, Prefer="wait=30").status == 202
    for _ in range(taken):
        places.release(bot)
    assert (waits, taken, len(places)) == ([30.0, 0.0, 30.0], WAITING_EACH, 0)


def test_the_description_names_every_answer_and_every_right(site: WebSite) -> None:
    described = site.get("/v1/openapi.json").tree
    operations = [(path, each) for path, methods in described["paths"].items() for each in methods.values()]
    assert len({each["operationId"] for _, each in operations}) == len(operations) > 50
    for path, each in operations:
        assert each["summary"], path
        assert path in {"/healthz", "/readyz"} or {"401", "403", "429"} <= each["responses"].keys()
        public = "security" not in each
        assert public == (path in {"/healthz", "/readyz"})
    posts = [methods["post"] for methods in described["paths"].values() if "post" in methods]
    assert all("requestBody" in each and {"409", "413", "415"} <= each["responses"].keys() for each in posts)


def test_the_reference_page_names_every_request(site: WebSite) -> None:
    page = (ROOT / "docs/reference/http.md").read_text(encoding="utf-8")
    described = site.get("/v1/openapi.json").tree["paths"]
    wanted = [
        f"| `{method.upper()} {path}` | {each['summary']} |"
        for path, methods in described.items()
        for method, each in methods.items()
    ]
    assert [line for line in wanted if line not in page] == []
    assert sum(line.startswith(("| `GET /", "| `POST /")) for line in page.splitlines()) == len(wanted)
