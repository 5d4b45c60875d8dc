"""A workspace behind `remit serve`, in a separate process, for the benchmarks of HTTP."""

import http.client
import json
import os
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

from remit.authority.capability_token import TokenRequest
from remit.contracts.browser.browser import TokenConstraints
from remit.workspace.workspace import Workspace

PLENTY: Final = {"requests_per_minute": 1_000_000, "connections": 2_000, "listeners": 1_000}
"""The limits stay on, but they are higher: a benchmark sends more requests than the callers they are for."""
WAIT: Final = {"Prefer": "wait=30", "Content-Type": "application/json"}


class Server:
    """`workspace` is the same one, opened in this process. Leases and tokens are made with it before measuring."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        config = workspace.root / "remit.yaml"
        config.write_text(config.read_text() + f"web: {json.dumps({'port': 0, 'limits': PLENTY})}\n")
        command = [sys.executable, "-m", "remit", "serve", "--no-link", "--json", "--workspace", str(workspace.root)]
        environ = {**os.environ, "REMIT_STATE": str(workspace.state.path.parent), "PYTHONPATH": str(_source())}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environ)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"bench: `remit serve` ended with {self.process.wait()}")
        self.address = urlsplit(json.loads(line)["url"]).netloc
        self._local = threading.local()

    def agent(self, name: str, *caps: str) -> str:
        return self.workspace.tokens.issue(TokenRequest(name, caps, TokenConstraints(), timedelta(days=1))).text

    def request(self, method: str, path: str, token: str | None = None, body: bytes | None = None) -> tuple[int, bytes]:
        """Send a request over this thread's own connection, which stays open."""
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = http.client.HTTPConnection(self.address, timeout=60)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        connection.request(method, path, body, headers | WAIT)
        answer = connection.getresponse()
        return answer.status, answer.read()

    def run_task(self, token: str, body: bytes) -> None:
        status, answer = self.request("POST", "/v1/tasks", token, body)
        if status != 200 or json.loads(answer)["result"]["status"] != "SUCCESS":
            raise RuntimeError(f"the task was answered with {status}: {answer.decode()}")

    def memory(self) -> float:
        """Megabytes that the server's process holds."""
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as stream:
            return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.terminate()
        self.process.wait(30)
        if self.process.stdout is not None:
            self.process.stdout.close()


def task_body(manifest: bytes, lease: bytes) -> bytes:
    document: dict[str, Any] = {"manifest": json.loads(manifest), "lease": json.loads(lease)}
    return json.dumps(document).encode()


def _source() -> Path:
    import remit  # noqa: PLC0415 - the server must use the same package as this program

    return Path(str(remit.__file__)).resolve().parents[1]
