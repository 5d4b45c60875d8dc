"""One running Chromium: its confined start, its supervision, and its certain end."""

import asyncio
import contextlib
import os
import select
import shutil
import signal
import socket
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, Self

from playwright.async_api import Browser as Driven
from playwright.async_api import Playwright, async_playwright

from remit.browser.chromium.errors import PlaywrightError
from remit.browser.chromium.executable import OMITTED_OPTIONS, find_program, find_user, options, require_version
from remit.browser.chromium.launcher_client import LISTENERS, Handover, Received
from remit.browser.chromium.redaction import Painter
from remit.browser.chromium.responsiveness import PageTimeouts
from remit.browser.chromium.session import PageSession, new_session
from remit.contracts.config.browser import Browser
from remit.core.errors import SESSION_GONE, EnvironmentFailureError, Reason, RemitError, UsageError
from remit.fs.atomic_write import make_private_directory

START_SECONDS: Final = 30.0
END_SECONDS: Final = 5.0


class Chromium:
    """One running Chromium. It can connect only to the listeners of `acquire_listener`, unless `confined` is False.

    `closed` is set when Chromium has ended for any reason. All methods belong to the event loop in which it was made.
    """

    def __init__(
        self, playwright: Playwright, *, confined: bool, profile: str | None, timeouts: PageTimeouts | None = None
    ) -> None:
        self._playwright = playwright
        self._timeouts = timeouts or PageTimeouts()
        self._profile = profile
        self._browser: Driven | None = None
        self._painter: Painter | None = None
        self._listeners: dict[int, socket.socket] = {}
        self._free: list[int] = []
        self._watch = -1
        self._pid = -1
        self.confined = confined
        self.closed = asyncio.Event()

    @classmethod
    async def launch(
        cls,
        config: Browser,
        *,
        run_folder: Path,
        hidden: Sequence[Path],
        spki: str,
        unsafe: bool = False,
        search_path: str | None = None,
    ) -> Self:
        """Start Chromium. `run_folder` is made if it is missing, and no other user may have access to it. `hidden` are
        folders that Chromium must not see.

        Raises EnvironmentFailureError if there is no Chromium, if it does not start, or if it cannot be confined. With
        `unsafe` it starts unconfined.
        """
        executable = find_program(config, os.environ.get("PATH", os.defpath) if search_path is None else search_path)
        user = find_user(config, os.geteuid())
        make_private_directory(run_folder)
        profile = None if not unsafe else tempfile.mkdtemp(prefix="remit-browser-")
        handover = Handover(
            run_folder,
            {
                "confined": not unsafe,
                "executable": executable,
                "hidden": [str(folder) for folder in hidden],
                "user": user,
                "profile": profile,
            },
        )
        playwright = await async_playwright().start()
        timeouts = PageTimeouts(float(config.late_seconds), float(config.page_seconds))
        self = cls(playwright, confined=not unsafe, profile=profile, timeouts=timeouts)
        try:
            await self._start(handover, spki)
        except BaseException:
            await self.close()
            raise
        finally:
            handover.close()
        return self

    async def _start(self, handover: Handover, spki: str) -> None:
        launching = asyncio.ensure_future(
            self._playwright.chromium.launch(
                executable_path=handover.program,
                args=options(spki),
                ignore_default_args=list(OMITTED_OPTIONS),
                chromium_sandbox=True,
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
                timeout=START_SECONDS * 1_000,
                env={},
            )
        )
        receiving = asyncio.ensure_future(handover.receive())
        try:
            await asyncio.wait({launching, receiving}, timeout=START_SECONDS, return_when=asyncio.FIRST_EXCEPTION)
            if receiving.done():
                self._adopt(receiving.result())
            self._browser = await launching
            if not receiving.done():
                raise EnvironmentFailureError(Reason.SANDBOX_UNAVAILABLE, "the launcher of Chromium did not report")
        except PlaywrightError as problem:
            raise _start_error(problem) from problem
        finally:
            for task in (launching, receiving):
                if not task.done():
                    task.cancel()
            await asyncio.gather(launching, receiving, return_exceptions=True)
        self._browser.on("disconnected", lambda _: self.closed.set())
        require_version(self._browser.version)

    def _adopt(self, received: Received) -> None:
        self._pid = received.pid
        self._listeners = received.listeners
        if not self.confined:
            self._listeners = dict(_listen_here() for _ in range(LISTENERS))
        self._free = list(self._listeners)
        with contextlib.suppress(ProcessLookupError):
            self._watch = os.pidfd_open(received.pid)
            asyncio.get_running_loop().add_reader(self._watch, self._on_exit)

    def _on_exit(self) -> None:
        asyncio.get_running_loop().remove_reader(self._watch)
        self.closed.set()

    @property
    def pid(self) -> int:
        return self._pid

    async def ended_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.closed.wait()
        return self.closed.is_set()

    def kill_page(self, pid: int) -> None:
        """Kill one of its processes of pages. Sessions with a page in it get the event that the page died."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)

    def acquire_listener(self) -> tuple[int, socket.socket]:
        """Return a port for one session, and the socket on which its requests arrive. The caller has to close it."""
        if not self._free:
            raise EnvironmentFailureError(
                Reason.RESOURCE_EXHAUSTED,
                f"{len(self._listeners)} browser sessions are open, which is the limit",
                next_step="End one of them, or wait until an idle one ends.",
            )
        port = self._free.pop(0)
        return port, self._listeners[port].dup()

    def release_listener(self, port: int) -> None:
        """Free the port after its session was closed. Its remaining requests must not reach the next session."""
        if port not in self._listeners or port in self._free:
            raise UsageError(Reason.MISUSE, f"port {port} was not taken")
        listener = self._listeners[port]
        listener.setblocking(False)
        with contextlib.suppress(OSError):
            while True:
                listener.accept()[0].close()
        self._free.append(port)

    async def open_session(self, port: int) -> PageSession:
        if self._browser is None or self.closed.is_set():
            raise EnvironmentFailureError(Reason.EFFECT_FAILED, "the browser has ended", next_step=SESSION_GONE)
        if self._painter is None:
            self._painter = Painter(self._browser)
        return await new_session(self._browser, port, self._painter, self._timeouts)

    async def close(self) -> None:
        """End Chromium in any state. No process and no folder of it is left."""
        if self._browser is not None:
            await _end_quietly(self._browser.close)
        if self._watch >= 0:
            with contextlib.suppress(ValueError, OSError):
                asyncio.get_running_loop().remove_reader(self._watch)
            await asyncio.to_thread(_end, self._pid, self._watch)
            os.close(self._watch)
            self._watch = -1
        await _end_quietly(self._playwright.stop)
        for listener in self._listeners.values():
            listener.close()
        self._listeners, self._free = {}, []
        self.closed.set()
        if self._profile is not None:
            shutil.rmtree(self._profile, ignore_errors=True)


def _listen_here() -> tuple[int, socket.socket]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    return listener.getsockname()[1], listener


async def _end_quietly(end: Callable[[], Awaitable[None]]) -> None:
    """Run one step of the end. If it fails or hangs, the next steps still run."""
    with contextlib.suppress(PlaywrightError, RemitError, TimeoutError):
        async with asyncio.timeout(END_SECONDS):
            await end()


def _end(pid: int, watch: int) -> None:
    """End Chromium's process group. The driver gives it a group of its own, so all its processes end."""
    ended = select.poll()
    ended.register(watch, select.POLLIN)
    if not ended.poll(END_SECONDS * 1_000):
        signal.pidfd_send_signal(watch, signal.SIGKILL)
        ended.poll(END_SECONDS * 1_000)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _start_error(problem: PlaywrightError) -> EnvironmentFailureError:
    """Build the error from those lines of the log that a person can act on."""
    lines = [line.strip(" -") for line in problem.message.splitlines()]
    relevant = [line for line in lines if "[err]" in line or "sandbox" in line.lower()]
    message = " ".join(relevant[:3]) or (lines[0] if lines else "it gave no reason")
    return EnvironmentFailureError(
        Reason.EFFECT_FAILED,
        f"Chromium did not start: {message}",
        next_step="Run `remit doctor`, or start Chromium by hand as the same user and read its messages.",
    )
