"""Watch remit.yaml while a server runs: can it be read, and which changed settings need a restart.

Changed tenants and rules are used at once. The settings that the server was built with need a restart.

While the file cannot be read, every token is refused, because the file also limits what a token may do. That is not
the fault of the agent. So the agent receives 503 without the path of the file. Logged-in people and standard error get
the whole message.
"""

import os
import sys
import threading
from typing import Final

from remit.contracts.config.config import CONFIG_NAME
from remit.core.errors import EnvironmentFailureError, Reason, RemitError
from remit.diagnostics.check import Check, Topic
from remit.workspace.container import READ_AT_OPENING
from remit.workspace.open import read_config
from remit.workspace.workspace import Workspace

SETTINGS: Final = Topic("settings", "the settings of remit.yaml")


class SettingsWatcher:
    """Watches the configuration of one workspace. It reads the file only after a change; a check costs one `stat`."""

    def __init__(self, workspace: Workspace) -> None:
        self._root = workspace.root
        self._initial = workspace.initial_config
        self._lock = threading.Lock()
        self._stamp: tuple[int, ...] | None = None
        self._problem: RemitError | None = None
        self._pending_restart: tuple[str, ...] = ()

    def problem(self) -> RemitError | None:
        """Return why the file cannot be read now. Each change is also written to standard error once."""
        return self._refresh()[0]

    def pending_restart(self) -> tuple[str, ...]:
        """Return the settings that changed since this server started and that need a restart."""
        return self._refresh()[1]

    def _refresh(self) -> tuple[RemitError | None, tuple[str, ...]]:
        stamp = self._now()
        with self._lock:
            if stamp != self._stamp:
                before, left = self._problem, self._pending_restart
                self._problem = self._read()
                self._stamp = stamp
                _report_problem(before, self._problem)
                if self._pending_restart != left:
                    _report_pending(self._pending_restart)
            return self._problem, self._pending_restart

    def require(self) -> None:
        """Refuse while the file cannot be read. The message has no path, because agents receive it."""
        if self.problem() is not None:
            raise EnvironmentFailureError(
                Reason.STATE_UNSAFE,
                "the configuration of this workspace cannot be read now, so every request is refused",
                where=CONFIG_NAME,
                next_step="Try again later. The person who runs the server finds the fault with: remit doctor",
            )

    def is_about(self, error: RemitError) -> bool:
        """Whether the error is about the configuration, and not about the request."""
        found = self.problem()
        return found is not None and (found.what, found.where) == (error.what, error.where)

    def check(self) -> Check:
        found = self.problem()
        return SETTINGS.ok("") if found is None else SETTINGS.failed(found)

    def _now(self) -> tuple[int, ...]:
        try:
            found = os.stat(self._root / CONFIG_NAME)
        except OSError:
            return ()
        return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size

    def _read(self) -> RemitError | None:
        try:
            now = read_config(self._root)
        except RemitError as problem:
            return problem
        except OSError as problem:
            return EnvironmentFailureError(
                Reason.STATE_UNSAFE,
                f"the configuration cannot be read: {problem.strerror}",
                where=str(self._root / CONFIG_NAME),
                next_step="Make the file readable for the account that runs the server.",
            )
        self._pending_restart = tuple(
            name for name in READ_AT_OPENING if getattr(now, name) != getattr(self._initial, name)
        )
        return None


def _report_problem(before: RemitError | None, now: RemitError | None) -> None:
    if now is not None:
        sys.stderr.write(f"{CONFIG_NAME} cannot be read, so the requests of agents are refused: {now}\n")
    elif before is not None:
        sys.stderr.write(f"{CONFIG_NAME} can be read again.\n")
    sys.stderr.flush()


def _report_pending(left: tuple[str, ...]) -> None:
    if left:
        sys.stderr.write(f"{CONFIG_NAME} was changed; restart the server to apply: {', '.join(left)}.\n")
    else:
        sys.stderr.write(f"{CONFIG_NAME} is again as it was when the server started.\n")
    sys.stderr.flush()
