"""One Chromium for each module of tests, and a session with pages of its own for each test."""

import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from remit.browser.chromium.process import Chromium
from remit.browser.chromium.session import PageSession
from remit.contracts.config.browser import Browser
from tests.browser.chromium.site import Site
from tests.support.patience import SOON

T = TypeVar("T")

CACHE = Path(__file__).parents[3] / ".cache"
SPKI = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="


class Running:
    """A browser and the event loop it lives in."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self._runner = asyncio.Runner()
        self.chromium = self.run(Chromium.launch(Browser(), run_folder=state / "run", hidden=[state], spki=SPKI))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def close(self) -> None:
        self.run(self.chromium.close())
        self._runner.close()


class Stage:
    """A session whose every request ends at `site`."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.chromium = running.chromium
        self.site = Site()
        self.session = self.run(self._open())

    async def _open(self) -> PageSession:
        self.port, listener = self.chromium.acquire_listener()
        await self.site.serve(listener)
        return await self.chromium.open_session(self.port)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.running.run(work)

    @property
    def title(self) -> str:
        """As it is now."""
        self.run(self.session.content_hash())
        return self.session.title

    def show(self, body: str, **more: str) -> None:
        """The session's page, from now on."""
        self.site.put("a.test/", body, **more)
        self.run(self.session.navigate("http://a.test/", SOON))

    def close(self) -> None:
        self.run(self._close())

    async def _close(self) -> None:
        await self.session.close()
        await self.site.close()
        self.chromium.release_listener(self.port)


async def until(holds: Callable[[], bool]) -> None:
    """What an event brings about, which comes when it comes."""
    async with asyncio.timeout(SOON):
        while not holds():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    # Where Chromium could see it, were it not hidden: folders for temporary files are kept from it anyway.
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="remit-chromium-", dir=CACHE) as folder:
        running = Running(Path(folder) / "state")
        yield running
        running.close()


def limit_calls(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Every look at a page and every act in it."""
    for module in ("session", "documents", "click"):
        monkeypatch.setattr(f"remit.browser.chromium.{module}.CALL_SECONDS", seconds)


@pytest.fixture
def stage(running: Running, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    limit_calls(monkeypatch, SOON)
    stage = Stage(running)
    yield stage
    stage.close()
