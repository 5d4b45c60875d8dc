"""One served workspace and one Chromium for each module. Each test has a browser window of its own."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.web.console.console_workspace import Stage, served

WAIT = 20_000
Open = Callable[..., Page]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with served(tmp_path_factory.mktemp("console")) as made:
        yield made


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # As root, Chromium cannot use its own sandbox. It opens only the server of the test.
        sandboxed = os.geteuid() != 0
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", chromium_sandbox=sandboxed)
        yield browser
        browser.close()


@pytest.fixture
def window(chromium: Browser, stage: Stage) -> Iterator[Open]:
    """Open a page: `window("ada", "admin")` is logged in, `window()` is not. A script error fails the test."""
    opened: list[Page] = []
    problems: list[str] = []

    def open_one(name: str | None = None, role: str = "admin", **options: Any) -> Page:
        standing = {key: options.pop(key) for key in ("user", "tenant") if key in options}
        context = chromium.new_context(base_url=stage.url, **options)
        context.set_default_timeout(WAIT)
        page = context.new_page()
        page.on("pageerror", lambda problem: problems.append(str(problem)))
        opened.append(page)
        if name is not None:
            link = stage.workspace.people.invite(name, role, actor="os:test", **standing)  # type: ignore[arg-type]
            cookie = stage.workspace.people.redeem(link.code).cookie
            context.add_cookies([{"name": "remit_session", "value": cookie, "url": stage.url}])
        return page

    expect.set_options(timeout=WAIT)
    yield open_one
    for page in opened:
        page.context.close()
    assert problems == []
