"""Whether remit.yaml can be read now, and what of it is not taken up yet. A server lives long, and somebody edits the
file meanwhile. Tenants and rules count as soon as they stand there; what the server itself was made with, when it is
started again.

While it cannot be read, no token is believed, since what it may do is said there too. That is not the fault of whoever
shows it: so he is told to come again, and not where the file lies; people are told all of it, and so is standard error.
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

SETTINGS: Final = Topic("settings", "all that remit.yaml decides")


class SettingsWatcher:
    """Of one workspace. The file is read again only when it is another; a look costs one `stat`."""

    def __init__(self, workspace: Workspace) -> None:
        self._root = workspace.root
        self._initial = workspace.initial_config
        self._lock = threading.Lock()
        self._stamp: tuple[int, ...] | None = None
        self._problem: RemitError | None = None
        self._pending_restart: tuple[str, ...] = ()

    def problem(self) -> RemitError | None:
        """What is wrong with it now. Told on standard error too, once for each change."""
        return self._refresh()[0]

    def pending_restart(self) -> tuple[str, ...]:
        """The settings that were changed since this server began, and that it does not go by yet."""
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
        """For whoever is no person of this workspace: without a path."""
        if self.problem() is not None:
            raise EnvironmentFailureError(
                Reason.STATE_UNSAFE,
                "the settings of this workspace cannot be read now, so nothing is decided",
                where=CONFIG_NAME,
                next_step="Try again later. Whoever runs the server sees what is wrong there: remit doctor",
            )

    def is_about(self, error: RemitError) -> bool:
        """Whether it was refused because of the settings, and not because of what was asked."""
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
                f"the settings cannot be read: {problem.strerror}",
                where=str(self._root / CONFIG_NAME),
                next_step="Make the file readable for whoever runs the server.",
            )
        self._pending_restart = tuple(
            name for name in READ_AT_OPENING if getattr(now, name) != getattr(self._initial, name)
        )
        return None


def _report_problem(before: RemitError | None, now: RemitError | None) -> None:
    if now is not None:
        sys.stderr.write(f"Agents are turned away, for {CONFIG_NAME} cannot be read: {now}\n")
    elif before is not None:
        sys.stderr.write(f"{CONFIG_NAME} can be read again.\n")
    sys.stderr.flush()


def _report_pending(left: tuple[str, ...]) -> None:
    if left:
        sys.stderr.write(f"{CONFIG_NAME} was changed: restart the server to take up: {', '.join(left)}.\n")
    else:
        sys.stderr.write(f"{CONFIG_NAME} is again as the server began with it.\n")
    sys.stderr.flush()
