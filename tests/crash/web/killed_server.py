"""`remit serve` as a process that can be killed, and comes back at the same address."""

import contextlib
import http.client
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, Final

from remit.browser_daemon.client import HostClient
from remit.browser_daemon.socket_path import DaemonFolder
from remit.workspace.workspace import Workspace
from tests.support import preloaded
from tests.support.web_server import Answer, Who, ask

STARTS_WITHIN: Final = 60.0
ENDS_WITHIN: Final = 40.0
ANNOUNCED: Final = "remit-fault "


class Gone(Exception):
    """The server died before it answered."""


class Server:
    """One that has said where it listens. `points` are the fault points that it passed, if it announces them."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.problems: list[str] = []
        self._errors = _Drained(process.stderr)
        self._lines: list[str] = []
        self._told = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._told.wait(STARTS_WITHIN)
        words = [line for line in self._lines if line.startswith("{")]
        if not words:
            raise Gone(f"it did not start: {self.points} {self._errors.text}")
        self.said: dict[str, Any] = json.loads(words[0])
        self.port = int(self.said["url"].rpartition(":")[2])
        self.pid = int(self.said["pid"])
        self.points_at_start = len(self.points)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.append(line.rstrip("\n"))
            if line.startswith("{"):
                self._told.set()
        self._told.set()

    @property
    def points(self) -> list[str]:
        return [line.removeprefix(ANNOUNCED) for line in self._lines if line.startswith(ANNOUNCED)]

    @property
    def errors(self) -> str:
        return self._errors.text

    def ask(
        self, method: str, path: str, who: Who, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Raises Gone if it dies meanwhile."""
        try:
            return ask(self.port, method, path, who, body, headers)
        except (http.client.HTTPException, OSError) as problem:
            raise Gone(str(problem)) from problem

    def get(self, path: str, who: Who, wait: float | None = None) -> Answer:
        return self.ask("GET", path, who, None, {"Prefer": f"wait={wait}"} if wait is not None else None)

    def post(self, path: str, body: Any, who: Who, **headers: str) -> Answer:
        given = {"Prefer": "wait=30", **{name.replace("_", "-"): value for name, value in headers.items()}}
        return self.ask("POST", path, who, body, given)

    def tree(self, path: str, who: Who, wait: float | None = None) -> Any:
        """Of what is there, and is told."""
        found = self.get(path, who, wait)
        assert found.status in {200, 202}, (path, found.status, found.body)
        return found.tree

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        assert self.ended() == -signal.SIGKILL

    def terminate(self) -> int:
        os.kill(self.pid, signal.SIGTERM)
        return self.ended()

    def ended(self, seconds: float = ENDS_WITHIN) -> int:
        return self.process.wait(seconds)

    def close(self) -> None:
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.process.kill()
        self.process.wait(ENDS_WITHIN)
        self._reader.join(ENDS_WITHIN)
        self._errors.join()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


class _Drained:
    """A stream that is read all the time: a server that nobody reads stops at a full pipe."""

    def __init__(self, stream: IO[str] | None) -> None:
        assert stream is not None
        self._stream = stream
        self.text = ""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        for line in self._stream:
            self.text += line

    def join(self) -> None:
        self._thread.join(ENDS_WITHIN)


@contextmanager
def served(workspace: Workspace, port: int = 0, *words: str, real: bool = False, **environ: str) -> Iterator[Server]:
    """Forked from a process that has Remit loaded, unless `real`. Whatever happens, it is gone afterwards."""
    program = [sys.executable, "-m", "remit"] if real else [preloaded.remit()]
    command = [*program, "serve", "--json", "--port", str(port), *words, "-C", str(workspace.root)]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("REMIT_")}
    process = subprocess.Popen(
        command,
        env={**clean, **workspace.environ, **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    server: Server | None = None
    try:
        server = Server(process)
        yield server
    finally:
        if server is not None:
            server.close()
        else:
            process.kill()
            process.communicate()


def browser_of(workspace: Workspace) -> HostClient:
    return HostClient(workspace.root, DaemonFolder.of(workspace.state), {})


def kill_browser(workspace: Workspace) -> None:
    """By SIGKILL, the process that holds requests; back when it is gone."""
    told = browser_of(workspace).status()
    assert told is not None, "no browser runs"
    ended = os.pidfd_open(told["pid"])
    try:
        os.kill(told["pid"], signal.SIGKILL)
        assert select.select([ended], [], [], ENDS_WITHIN)[0], "it did not end"
    finally:
        os.close(ended)
