"""A person's terminal that runs `remit approvals --wait` or another `remit approvals` command."""

import os
import pty
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

LONGEST = 30.0


class Terminal:
    def __init__(self, root: Path, environ: Mapping[str, str], *words: str) -> None:
        self.outer, inner = pty.openpty()
        self.seen = b""
        self.child = subprocess.Popen(
            [sys.executable, "-m", "remit", "approvals", *(words or ("--wait",))],
            cwd=root,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
            env={**os.environ, **environ, "NO_COLOR": "1"},
        )
        os.close(inner)
        os.set_blocking(self.outer, False)

    def until(self, text: str) -> str:
        """Wait for the text, and return the output before it."""
        deadline = time.monotonic() + LONGEST
        while text.encode() not in self.seen:
            assert time.monotonic() < deadline, self.seen.decode(errors="replace")
            try:
                self.seen += os.read(self.outer, 65_536)
            except BlockingIOError:
                time.sleep(0.01)
        before, _, self.seen = self.seen.partition(text.encode())
        return before.decode(errors="replace")

    def type(self, text: str) -> None:
        os.write(self.outer, text.encode())

    def close(self) -> None:
        self.child.kill()
        self.child.wait()
        os.close(self.outer)
