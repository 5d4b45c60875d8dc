"""A page that keeps its process busy is ended: the action says so, no processor is kept, and the session goes on.

Pages of one group are stuck at the same time, each in a session of its own: so a group takes as long as one page does.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from remit.browser import actions as acting
from remit.browser import sessions
from remit.browser.chromium import session
from remit.browser.gate import MAX_NAVIGATIONS
from remit.contracts.browser.browser import ActionResult
from tests.browser.chromium.processes import command_of, family_of
from tests.browser.service.browser_workspace import Place, approve, made_place
from tests.support.browser_site import Reply

pytestmark = [pytest.mark.req("VX-05", "VX-11")]

GUARD_SECONDS = 90
"""When a test gives up. None of them is right because something was fast."""
FOREVER = "for (;;);"
DOMAINS = ("shop.test", "evil.test")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with made_place(tmp_path_factory.mktemp("hostile"), page_seconds=2, late_seconds=1) as place:
        yield place


@pytest.fixture(scope="module")
def unwatched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """For what happens while no action is at work: no page that is well has to answer in time here."""
    folder = tmp_path_factory.mktemp("unwatched")
    with made_place(folder, page_seconds=1, late_seconds=1, page_bytes=512 << 20) as place:
        yield place


def fresh(place: Place) -> Place:
    """With sessions of its own: its token is new. The sessions before it are ended, and their pages with them."""
    world: Any = place.workspace.browser_service._driver  # noqa: SLF001
    if world is not None:
        world._thread.run(_close_sessions(world._sessions))  # noqa: SLF001
    place.site.routes.clear()
    place.site.routes |= {"/login": "<script>document.cookie = 'kept=1'</script>", "/act": "done", "/fine": FINE}
    place.forget()
    place.sleeps.clear()
    place.issue(domains=DOMAINS)
    return place


async def _close_sessions(sessions: Any) -> None:
    for tab in sessions.tabs:
        await sessions.close(tab.key)


@pytest.fixture
def place(shared: Place) -> Place:
    return fresh(shared)


def button(work: str, more: str = "") -> str:
    return f"{more}<button id=go type=button>x</button><script>go.onclick = () => {{ {work} }}</script>"


FINE = button("fetch('/act', {method: 'POST', body: document.cookie + location.search})")


def opened(place: Place, pages: dict[str, str], *, cookie: bool = True) -> list[str]:
    """Each page in a session of its own, which has a cookie. The names of the sessions, in the order of the pages."""
    names = [f"s{number}" for number in range(len(pages))]
    evil = place.site.url("/loop", host="evil.test")
    for name, html in zip(names, pages.values(), strict=True):
        place.site.routes[f"/{name}"] = f"<script>const EVIL = '{evil}'</script>{html}"
        for path in ["/login", f"/{name}"] if cookie else [f"/{name}"]:
            result = place.do(place.action("navigate", path, session=name))
            assert result.success, (name, result)
    place.forget()
    return names


def at_once(work: Callable[[str], ActionResult], names: Iterable[str]) -> list[ActionResult]:
    with ThreadPoolExecutor() as pool:
        return list(pool.map(work, names))


def renderers(place: Place) -> dict[int, int]:
    """The processor time of each process of pages, in hundredths of a second, as the kernel counts it."""
    world: Any = place.workspace.browser_service._driver  # noqa: SLF001 - which Chromium it is
    [chromium] = {tab.chromium for tab in world._sessions.tabs}  # noqa: SLF001
    found = {}
    for pid in family_of(chromium.pid):
        if b"--type=renderer" in command_of(pid):
            try:
                fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
            except OSError:
                continue
            found[pid] = int(fields[11]) + int(fields[12])
    return found


def require_at_rest(place: Place) -> None:
    """No process of pages uses a processor any more. An endless loop has some of each second, on any machine."""
    deadline = time.monotonic() + GUARD_SECONDS
    while True:
        before = renderers(place)
        threading.Event().wait(1)
        after = renderers(place)
        if all(after[pid] - before.get(pid, 0) <= 5 for pid in after):
            return
        assert time.monotonic() < deadline, "a page keeps a processor"


def require_usable(place: Place, names: Iterable[str]) -> None:
    """The same sessions can go on, with their cookies."""
    place.forget()
    for name in names:
        fine = place.do(place.action("navigate", f"/fine?{name}", session=name))
        assert fine.success, (name, fine)
        result = place.do(place.action("click", "/fine", selector="#go", session=name))
        assert (result.success, result.sent) == (True, 1), (name, result)
        assert [seen.body for seen in place.site.posts()] == [f"kept=1?{name}".encode()]
        place.forget()


def require_ended(place: Place, way: str, result: ActionResult) -> None:
    assert not result.success, f"{way}: a page that is stuck is no success"
    assert result.error is not None
    assert result.error.code == "KERNEL_ERROR"
    assert "did not answer for 2 seconds and was ended" in (result.reason or ""), (way, result)
    assert "Navigate again" in str(result.error)
    assert place.sleeps == [], f"{way}: it was tried again"


SENDS_FIRST = "a loop in a timer, after something was sent"
STUCK = {
    "a loop in the handler": ("click", button(FOREVER)),
    "a loop on mousedown": ("click", f"<button id=go type=button onmousedown='{FOREVER}'>x</button>"),
    SENDS_FIRST: ("click", button(f"fetch('/act', {{method: 'POST'}}); setTimeout(() => {{ {FOREVER} }}, 0)")),
    "a loop in a frame of another site": ("click", button("f.src = EVIL", "<iframe id=f></iframe>")),
    "dialogs without an end": ("click", button("for (;;) alert('again')")),
    "a loop while it loads": ("navigate", "hello"),
}
MORE_STUCK = {
    "a loop in a timer of a while": ("click", button(f"setTimeout(() => {{ {FOREVER} }}, 200)")),
    "promises without an end": ("click", button("const on = () => Promise.resolve().then(on); on()")),
    "a loop in a frame": ("click", button("f.contentWindow.eval('for (;;);')", "<iframe id=f srcdoc=hello></iframe>")),
    "a loop while it goes elsewhere": ("click", button(f"location = '/fine'; {FOREVER}")),
    "a loop in a field": ("type", f"<input id=go oninput='{FOREVER}'>"),
    "a loop in a form": ("submit", f"<form onsubmit='{FOREVER}'><input id=go></form>"),
}


@pytest.mark.parametrize("group", [STUCK, pytest.param(MORE_STUCK, marks=pytest.mark.long)], ids=["some", "more"])
def test_a_page_that_an_action_sets_looping_is_ended_and_told(place: Place, group: dict[str, tuple[str, str]]) -> None:
    place.site.routes["/loop"] = f"<h1>hello</h1><script>{FOREVER}</script>"
    names = opened(place, {way: html for way, (_, html) in group.items()})
    kinds = dict(zip(names, (kind for kind, _ in group.values()), strict=True))

    def act(name: str) -> ActionResult:
        if kinds[name] == "navigate":
            return place.do(place.action("navigate", "/loop", session=name))
        more: dict[str, Any] = {"value": "a"} if kinds[name] == "type" else {}
        return place.do(place.action(kinds[name], f"/{name}", selector="#go", session=name, **more))

    for way, result in zip(group, at_once(act, names), strict=True):
        require_ended(place, way, result)
        if way == SENDS_FIRST:
            assert "1 request was sent" in str(result.error)
        assert result.sent == (way == SENDS_FIRST), "what was sent before the loop is counted"
    assert len(place.site.posts()) == (SENDS_FIRST in group)
    require_gone(place, names, "the page of this session has ended")
    require_at_rest(place)
    require_usable(place, names)


LATER = {
    "the page": f"<script>fetch('/signal').then(() => {{ {FOREVER} }})</script>",
    "a frame of another site": "<iframe id=f></iframe><script>fetch('/signal').then(() => { f.src = EVIL })</script>",
    "a worker": "<script>fetch('/signal').then(() => new Worker('/loop.js'))</script>",
}
SHARED_WORKER = "<script>fetch('/signal').then(() => new SharedWorker('/loop.js'))</script>"


def looping_later(place: Place, pages: dict[str, str]) -> list[str]:
    """Pages whose loop begins when no action is at work: they wait for an answer of the site, which comes then."""
    event = threading.Event()
    place.site.routes |= {
        "/signal": Reply(200, b"{}", wait_for=event),
        "/loop": f"<script>{FOREVER}</script>",
        "/loop.js": Reply(200, FOREVER.encode(), content_type="text/javascript"),
    }
    names = opened(place, pages)
    event.set()
    return names


def until_busy(place: Place) -> None:
    deadline = time.monotonic() + GUARD_SECONDS
    first = renderers(place)
    while not any(ticks - first.get(pid, 0) > 10 for pid, ticks in renderers(place).items()):
        assert time.monotonic() < deadline, "the page did not begin its loop"
        threading.Event().wait(0.05)


def until_ended(place: Place, names: Iterable[str]) -> None:
    """Until Remit has ended the page of each session. No action asks: that would be another way to find it out."""
    world: Any = place.workspace.browser_service._driver  # noqa: SLF001
    deadline = time.monotonic() + GUARD_SECONDS
    left = set(names)
    while left:
        for tab in world._sessions.tabs:  # noqa: SLF001
            if tab.page.ended_because or tab.page._events.is_dead:  # noqa: SLF001
                left.discard(tab.key.name)
        assert time.monotonic() < deadline, f"nothing has ended the pages of {left}"
        threading.Event().wait(0.05)


def require_gone(place: Place, names: Iterable[str], why: str = "") -> None:
    for name in names:
        looked = place.do(place.action("snapshot", f"/{name}", session=name))
        assert looked.error is not None, name
        assert looked.error.code == "KERNEL_ERROR", (name, looked)
        assert why in (looked.reason or ""), (name, looked)
        assert "Navigate again" in str(looked.error)


def test_what_loops_while_no_action_is_at_work_keeps_no_processor(
    unwatched: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "WORKER_FACTOR", 2)  # a worker has seconds, not minutes
    place = fresh(unwatched)
    names = looping_later(place, LATER)
    until_ended(place, names)
    require_at_rest(place)
    require_gone(place, names, "it did not answer for 1 seconds or more and was ended")
    require_usable(place, names)


def test_a_shared_worker_that_loops_keeps_no_processor(unwatched: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """No page answers for it, and its page is well: so its process ends."""
    monkeypatch.setattr(sessions, "IDLE_FACTOR", 3)
    place = fresh(unwatched)
    names = looping_later(place, {"a shared worker": SHARED_WORKER})
    until_ended(place, names)
    require_at_rest(place)
    require_gone(place, names, "died")
    require_usable(place, names)


def test_a_session_leaves_a_page_that_is_stuck_by_navigating(unwatched: Place) -> None:
    """Whether the page was ended before or is ended by this."""
    place = fresh(unwatched)
    names = looping_later(place, {"the page": LATER["the page"]})
    until_busy(place)
    require_usable(place, names)
    require_at_rest(place)


def test_a_page_that_takes_too_much_memory_is_ended(unwatched: Place) -> None:
    place = fresh(unwatched)
    takes_1_gb = (
        "const all = []; for (let i = 0; i < 32; i++) all.push(new Uint8Array(32 << 20).fill(1)); self.all = all"
    )
    names = looping_later(place, {"greedy": f"<script>fetch('/signal').then(() => {{ {takes_1_gb} }})</script>"})
    until_ended(place, names)
    require_gone(place, names)
    require_usable(place, names)


def test_a_page_whose_script_waits_for_a_person_is_not_ended(unwatched: Place) -> None:
    """A synchronous request keeps the page from answering, as long as the person takes."""
    place = fresh(unwatched)
    place.open(
        button(
            "const x = new XMLHttpRequest(); x.open('POST', '/act', false); x.send('now'); document.title = x.status"
        )
    )

    def slowly(place: Place, approval: Any) -> None:
        threading.Event().wait(2)  # more than the page has to answer; that is no proof, it only makes a fault show
        approve(place, approval)

    result = place.click(answer=slowly)
    assert (result.success, result.sent) == (True, 1), result
    assert result.output is not None
    assert result.output["title"] == "200"


def test_a_page_that_does_not_want_to_be_left_is_left_by_navigating(place: Place) -> None:
    """Chromium asks the person in front of it only if the page was used before: so it is clicked on."""
    stays = "<script>onbeforeunload = (event) => { event.preventDefault(); return 1 }</script>"
    names = opened(place, {"stays": button("document.title = 'used'", stays)})
    assert place.do(place.action("click", "/s0", selector="#go", session="s0")).success
    require_usable(place, names)


def test_a_page_that_loads_itself_without_an_end_is_stopped_and_left(place: Place) -> None:
    place.site.routes["/again"] = "<script>setTimeout(() => location.reload(), 0)</script>"
    for path in ("/login", "/again"):
        place.do(place.action("navigate", path, session="again"))
    place.site.wait_until(lambda site: site.paths().count("GET /again") >= MAX_NAVIGATIONS, GUARD_SECONDS)
    require_at_rest(place)
    assert place.site.paths().count("GET /again") == MAX_NAVIGATIONS
    require_usable(place, ["again"])


def test_a_service_worker_that_loops_keeps_its_site_from_loading_only_once(
    unwatched: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes each request for a page of its site, and never answers. No page answers for it."""
    monkeypatch.setattr(sessions, "IDLE_FACTOR", 1_000_000)  # that it never rests is not how it is found out here
    place = fresh(unwatched)
    worker = f"onactivate = (event) => event.waitUntil(clients.claim()); onfetch = () => {{ {FOREVER} }}"
    place.site.routes["/sw.js"] = Reply(200, worker.encode(), content_type="text/javascript")
    register = "navigator.serviceWorker.register('/sw.js').then(() => navigator.serviceWorker.ready)"
    place.open(f"<script>{register}.then(() => {{ document.title = 'ready' }})</script>", tls=True)
    deadline = time.monotonic() + GUARD_SECONDS
    while (place.do(place.action("snapshot", tls=True)).output or {}).get("title") != "ready":
        assert time.monotonic() < deadline, "it was not installed"

    def later(_: float) -> None:
        place.sleeps.append(_)
        monkeypatch.setattr(acting, "NAVIGATE_SECONDS", GUARD_SECONDS)

    monkeypatch.setattr(acting, "NAVIGATE_SECONDS", 1.0)  # of the first time, which cannot succeed
    monkeypatch.setattr(place.workspace.browser_service, "_sleep", later)
    assert place.do(place.action("navigate", "/fine", tls=True)).success
    assert len(place.sleeps) == 1
    require_at_rest(place)
    monkeypatch.setattr(acting, "NAVIGATE_SECONDS", GUARD_SECONDS)
    assert place.do(place.action("navigate", "/act", tls=True)).success


def test_a_page_cannot_draw_in_three_dimensions(place: Place) -> None:
    """One drawing without an end would keep the process busy that draws for all sessions, its page gone or not."""
    kinds = "['webgl', 'webgl2', 'experimental-webgl']"
    place.open(
        f"<script>document.title = {kinds}.map((kind) => document.createElement('canvas').getContext(kind))</script>"
    )
    result = place.do(place.action("snapshot"))
    assert result.output is not None
    assert result.output["title"] == ",,"
