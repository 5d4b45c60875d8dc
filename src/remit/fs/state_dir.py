"""Where Remit keeps what no agent may reach: keys, the ledger, snapshots, idempotency records.

The state directory lies outside every root, because a sandbox that was granted a root cannot be refused a part of it.
Its name is derived from the workspace's own path, never read from the workspace: a hostile repository cannot point
Remit at somebody else's keys.
"""

import errno
import hashlib
import os
import pwd
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError


@dataclass(frozen=True, slots=True)
class StateDirectory:
    """The layout of one workspace's state."""

    path: Path

    @property
    def keys(self) -> Path:
        return self.path / "keys"

    @property
    def database(self) -> Path:
        return self.path / "ledger.sqlite3"

    @property
    def anchors(self) -> Path:
        return self.path / "anchors"

    @property
    def snapshots(self) -> Path:
        """Files as they were before a task removed them. Never pruned."""
        return self.path / "snapshots"

    @property
    def hosts(self) -> Path:
        """One lock file for each process that runs tasks, shared with all that it starts."""
        return self.path / "hosts"

    @property
    def work(self) -> Path:
        """Copies of databases, on which the SQL of plans is run; one folder for each plan, while it is looked at."""
        return self.path / "work"

    @property
    def change_signal_file(self) -> Path:
        """Written to whenever a question to a person is asked or answered, for those who wait to hear of it."""
        return self.path / "approvals.bell"

    @property
    def people(self) -> Path:
        """Who was invited and who is logged in; of secrets only the digests."""
        return self.path / "people"

    @property
    def clock(self) -> Path:
        """What the clock showed when a process last wrote to the ledger, beside the time since boot. Only a hint."""
        return self.path / "clock.json"

    @property
    def settings(self) -> Path:
        return self.path / "workspace.json"


def locate_state(root: Path, environ: Mapping[str, str]) -> StateDirectory:
    """The state directory of the workspace at `root`. Refuses one that lies beneath the root, or above it.

    Links are followed before the comparison. Limit: two mounts of one folder are not seen to be the same.
    """
    root = _resolved(root)
    home = _state_home(environ)
    state = home / workspace_id(root)
    real = _resolved(state)
    overlaps = any(place.is_relative_to(root) or root.is_relative_to(place) for place in (home, state, real))
    # From the root down: the first folder that is closed to us is the one to be named.
    if overlaps or any(_is_workspace(folder) for folder in reversed(real.parents)):
        raise RefusedError(
            Reason.STATE_UNSAFE,
            "the state directory overlaps a workspace, so an agent at work could reach the keys",
            where=str(state),
            next_step="Set REMIT_STATE to a folder outside of every workspace.",
        )
    return StateDirectory(state)


def workspace_id(root: Path) -> str:
    """A readable, unique folder name for an absolute path."""
    readable = re.sub(r"[^a-z0-9]+", "-", root.name.lower()).strip("-")[:32] or "root"
    return f"{readable}-{hashlib.sha256(os.fsencode(root)).hexdigest()[:16]}"


def require_private(
    path: Path, *, what: str, if_missing: str = "Restore it from a backup; `remit doctor` shows what else is amiss."
) -> os.stat_result:
    """The file or folder must be ours and closed to everybody else. Does not follow a link."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        raise EnvironmentFailureError(
            Reason.STATE_MISSING, f"{what} is missing", where=str(path), next_step=if_missing
        ) from None
    except OSError as problem:
        raise unreadable(what, path, problem) from None
    why = privacy_problem(found)
    if why:
        raise EnvironmentFailureError(
            Reason.STATE_UNSAFE,
            f"{what} {why}",
            where=str(path),
            next_step=_privacy_advice(found, path),
        )
    return found


def unreadable(what: str, path: Path, problem: OSError) -> EnvironmentFailureError:
    why = os.strerror(problem.errno) if problem.errno else type(problem).__name__
    return EnvironmentFailureError(
        Reason.STATE_UNSAFE,
        f"{what} cannot be read: {why}",
        where=str(path),
        next_step="Run Remit as the user who owns the state directory.",
    )


def privacy_problem(found: os.stat_result) -> str:
    """Why this is not private to us, or an empty string."""
    if stat.S_ISLNK(found.st_mode):
        return "is a symbolic link"
    if found.st_uid != os.geteuid():
        return f"belongs to user {found.st_uid}, not to user {os.geteuid()}"
    if found.st_mode & 0o077:
        return f"is open to others (mode {stat.S_IMODE(found.st_mode):04o})"
    return ""


def _privacy_advice(found: os.stat_result, path: Path) -> str:
    if found.st_uid != os.geteuid():
        try:
            owner = pwd.getpwuid(found.st_uid).pw_name
        except KeyError:
            owner = f"number {found.st_uid}"
        return f"Run Remit as the user who owns it ({owner}), or find out who took it over."
    return f"Find out who changed it, then close it again: chmod -R go-rwx '{path}'"


def _state_home(environ: Mapping[str, str]) -> Path:
    chosen = environ.get("REMIT_STATE")
    if chosen:
        if not Path(chosen).is_absolute():
            raise RefusedError(
                Reason.STATE_UNSAFE,
                "REMIT_STATE is not an absolute path",
                where=chosen,
                next_step="Give the full path: a relative one would change with the folder you stand in.",
            )
        return _resolved(Path(chosen))
    base = environ.get("XDG_STATE_HOME", "")
    # The XDG specification says to ignore a relative path; a relative HOME would change with the folder, too.
    home = Path(base) if Path(base).is_absolute() else _home(environ) / ".local" / "state"
    return _resolved(home / "remit")


def _home(environ: Mapping[str, str]) -> Path:
    named = Path(environ.get("HOME", ""))
    return named if named.is_absolute() else Path(pwd.getpwuid(os.getuid()).pw_dir)


def _is_workspace(folder: Path) -> bool:
    """Refuses a folder that we may not look into: what is above the keys must be known."""
    try:
        return stat.S_ISREG(os.stat(folder / "remit.yaml").st_mode)
    except PermissionError as problem:
        owner = os.stat(folder)
        if owner.st_uid == os.geteuid():
            closed = unreadable("a folder above the state directory", folder, problem)
            raise RefusedError(closed.reason, closed.what, where=closed.where, next_step=closed.next_step) from None
        raise RefusedError(
            Reason.STATE_UNSAFE,
            f"a folder above the state directory {privacy_problem(owner)}, and is closed to others",
            where=str(folder),
            next_step=f"{_privacy_advice(owner, folder)} Or set REMIT_STATE, or HOME, to a folder of your own.",
        ) from None
    except OSError as problem:
        if problem.errno in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
            return False
        raise


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # a loop of links is a RuntimeError here
        raise RefusedError(
            Reason.STATE_UNSAFE,
            "this path cannot be followed to its end: its links go in a circle, or a folder is closed to us",
            where=str(path),
            next_step="Give a path without links.",
        ) from None
