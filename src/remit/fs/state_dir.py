"""The state directory, which no agent may reach: keys, the ledger, snapshots, idempotency records.

It is outside of every workspace, because a sandbox grants whole folders and cannot take out a part of one. Its name is
derived from the path of the workspace and never read from a file there, so that a hostile repository cannot make Remit
use the keys of another workspace.
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
        """Copies of files that a task removed. Never pruned."""
        return self.path / "snapshots"

    @property
    def hosts(self) -> Path:
        """A lock file for each process that runs tasks. The processes that it starts share the lock."""
        return self.path / "hosts"

    @property
    def work(self) -> Path:
        """Copies of databases, on which a preview runs the SQL of a plan. Each plan has a folder during its preview."""
        return self.path / "work"

    @property
    def prepared(self) -> Path:
        """The files that SQL and pipelines made for stored previews. They are kept until a plan is applied."""
        return self.path / "prepared"

    @property
    def change_signal_file(self) -> Path:
        """The file that is written whenever an approval request is made or answered, to wake the waiting processes."""
        return self.path / "approvals.bell"

    @property
    def people(self) -> Path:
        """The users, their invitations and their logins. Secrets are stored as digests only."""
        return self.path / "people"

    @property
    def clock(self) -> Path:
        """The time of the last write to the ledger, with the time since boot. It is only a hint."""
        return self.path / "clock.json"

    @property
    def settings(self) -> Path:
        return self.path / "workspace.json"


def locate_state(root: Path, environ: Mapping[str, str]) -> StateDirectory:
    """Return the state directory of the workspace at `root`. Refuses one below the root or above it.

    Links are followed before the comparison. Limit: two mounts of one folder are not recognised as the same.
    """
    root = _resolved(root)
    home = _state_home(environ)
    state = home / workspace_id(root)
    real = _resolved(state)
    overlaps = any(place.is_relative_to(root) or root.is_relative_to(place) for place in (home, state, real))
    # Checked from the root down, so that the message names the first folder that this user may not read.
    if overlaps or any(_is_workspace(folder) for folder in reversed(real.parents)):
        raise RefusedError(
            Reason.STATE_UNSAFE,
            "the state directory overlaps a workspace, so an agent could reach the keys",
            where=str(state),
            next_step="Set REMIT_STATE to a folder outside of every workspace.",
        )
    return StateDirectory(state)


def workspace_id(root: Path) -> str:
    """Return a readable, unique folder name for an absolute path."""
    readable = re.sub(r"[^a-z0-9]+", "-", root.name.lower()).strip("-")[:32] or "root"
    return f"{readable}-{hashlib.sha256(os.fsencode(root)).hexdigest()[:16]}"


def require_private(
    path: Path, *, what: str, if_missing: str = "Restore it from a backup; `remit doctor` shows other problems."
) -> os.stat_result:
    """Refuse a file or folder that does not belong to this user, or that other users can access.

    Does not follow a link.
    """
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
    """Return why this is not private to this user, or an empty string."""
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
        return f"Run Remit as the user who owns it ({owner}), or find out who changed its owner."
    return f"Find out who changed it, then remove the access of others: chmod -R go-rwx '{path}'"


def _state_home(environ: Mapping[str, str]) -> Path:
    chosen = environ.get("REMIT_STATE")
    if chosen:
        if not Path(chosen).is_absolute():
            raise RefusedError(
                Reason.STATE_UNSAFE,
                "REMIT_STATE is not an absolute path",
                where=chosen,
                next_step="Use the full path: a relative one would change with the current folder.",
            )
        return _resolved(Path(chosen))
    base = environ.get("XDG_STATE_HOME", "")
    # The XDG specification says to ignore a relative path. A relative HOME would also change with the current folder.
    home = Path(base) if Path(base).is_absolute() else _home(environ) / ".local" / "state"
    return _resolved(home / "remit")


def _home(environ: Mapping[str, str]) -> Path:
    named = Path(environ.get("HOME", ""))
    return named if named.is_absolute() else Path(pwd.getpwuid(os.getuid()).pw_dir)


def _is_workspace(folder: Path) -> bool:
    """Return whether this folder is a workspace. Refuses an unreadable one, because it is above the keys."""
    try:
        return stat.S_ISREG(os.stat(folder / "remit.yaml").st_mode)
    except PermissionError as problem:
        owner = os.stat(folder)
        if owner.st_uid == os.geteuid():
            closed = unreadable("a folder above the state directory", folder, problem)
            raise RefusedError(closed.reason, closed.what, where=closed.where, next_step=closed.next_step) from None
        raise RefusedError(
            Reason.STATE_UNSAFE,
            f"a folder above the state directory {privacy_problem(owner)}, and this user cannot read it",
            where=str(folder),
            next_step=f"{_privacy_advice(owner, folder)} Or set REMIT_STATE, XDG_STATE_HOME or HOME to a folder of your"
            " own.",
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
            "this path cannot be resolved: its links go in a circle, or this user cannot read a folder",
            where=str(path),
            next_step="Give a path without links.",
        ) from None
