"""Checks of paths as text, before a file is opened: a path must be beneath an allowed directory and have one spelling.

`locate`, for absolute paths, and `locate_below`, for those of a plan, are pure. `remit.fs.openat` finds out what a path
names on the disk, at the moment it opens it. A path is never normalised into another one, except that `//` and `.` are
left out. A path that needs more is refused.
"""

import functools
import os
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from remit.core.errors import Reason, RefusedError

MAX_PATH_BYTES: Final = 4095
MAX_NAME_BYTES: Final = 255

_NEVER: Final = ("proc", "sys", "dev")
"""Folders in which the kernel shows processes and devices as files. A task must not reach those."""


class Located(NamedTuple):
    """The parts of a path: an allowed directory, the folders below it, and a name."""

    base: str
    parents: tuple[str, ...]
    name: str

    @property
    def below(self) -> str:
        """The path relative to its base."""
        return "/".join((*self.parents, self.name))

    @property
    def path(self) -> str:
        """The only spelling of this path that Remit uses."""
        return "/".join((self.base, *self.parents, self.name))


def locate(path: str, bases: Sequence[str]) -> Located:
    """Return the parts of a path below an allowed directory. Refuses any other path.

    If allowed directories are nested, the innermost one is used.
    """
    components = _components(path)
    if path.endswith(("/", "/.")):
        raise _refused("this path ends in a slash or a dot, so it names a directory", path, "Name a file.")
    # Components are compared, because as text /project-evil begins with /project.
    by_depth = sorted(((_components(base), base) for base in bases), key=lambda pair: len(pair[0]), reverse=True)
    for inside, _ in by_depth:
        if inside == components:
            raise _refused("this is an allowed directory itself", path, "Name a file beneath it.")
        if components[: len(inside)] == inside:
            below = components[len(inside) :]
            return Located("/" + "/".join(inside), below[:-1], below[-1])
    raise _refused(
        "this path is outside of every allowed directory",
        path,
        (
            f"Use a path beneath one of these: {', '.join(bases)}."
            if bases
            else "No directory is allowed yet: list some as base_directories in remit.yaml."
        )
        + " A server or program that already runs reads a change of base_directories only after a restart.",
    )


@functools.lru_cache(maxsize=4_096)  # each package that handles a plan calls it again
def locate_below(root: str, path: str) -> Located:
    """Return the parts of a path of a plan, which is relative to the root.

    Refuses a path that another program could read as one outside of the root.
    """
    if path.startswith("/"):
        raise _refused("this path is absolute", path, "Name the file by its path below the root of the workspace.")
    components = _split(path)
    if not components:
        raise _refused("this path names no file", path, "Name a file below the root of the workspace.")
    if path.endswith(("/", "/.")):
        raise _refused("this path ends in a slash or a dot, so it names a directory", path, "Name a file.")
    for part in components:
        _require_one_meaning(part, path)
    if components[0] == "~":
        raise _refused("this path begins with `~`", path, "Name the file by its path below the root of the workspace.")
    place = Located(root, components[:-1], components[-1])
    if len(place.path.encode("utf-8")) > MAX_PATH_BYTES:
        raise _refused(f"this path has more than {MAX_PATH_BYTES} bytes", path[:80] + "...", "Use a shorter one.")
    return place


def plain_spelling(path: str) -> str:
    """Return a path without `//` and `.`, so that two spellings of one file become equal. Checks nothing."""
    return "/".join(part for part in path.split("/") if part not in {"", "."})


def _require_one_meaning(part: str, path: str) -> None:
    """Refuse a component that another program, system or font may show as `..` or a slash.

    For the kernel it is an ordinary name.
    """
    if ".." in part.split("\\"):
        raise _refused("a component of this path has `..` beside a backslash", path, "Separate folders by a slash.")
    plain = unicodedata.normalize("NFKC", part)
    if "/" in plain or "\0" in plain or ".." in plain.split("\\"):
        raise _refused(
            "a component of this path looks like `..` or a slash, written in other characters",
            ascii(path),
            "Use plain dots and slashes.",
        )


def require_bases(bases: Iterable[str], state: Path) -> tuple[str, ...]:
    """Return the allowed directories, each in its only spelling.

    Refuses a directory behind a link, and one that overlaps Remit's state. It reads the disk once. Later changes of the
    directories are found by `remit.fs.openat.open_base`. Limit: a second mount of an allowed directory itself is
    recognised, but not a second mount of a folder below it.
    """
    return tuple(_require_base(base, state) for base in bases)


def _require_base(base: str, state: Path) -> str:
    components = _components(base)
    plain = "/" + "/".join(components)
    if not components or components[0] in _NEVER:
        raise _refused(
            "this can never be an allowed directory", base, "Choose a directory that contains only work files."
        )
    real = os.path.realpath(plain)
    if real != plain:
        raise _refused("this allowed directory is behind a symbolic link", base, f"Write its real path: {real}")
    if not os.path.isdir(plain):
        raise _refused("this allowed directory does not exist, or is not one", base, "Create it, or correct the path.")
    if _overlaps(Path(plain), state):
        raise RefusedError(
            Reason.STATE_UNSAFE,
            "this allowed directory overlaps the state directory, so a task could reach the keys",
            where=base,
            next_step="Choose another directory, or set REMIT_STATE to a folder outside of it.",
        )
    return plain


def _overlaps(base: Path, state: Path) -> bool:
    state = state.resolve()
    if base.is_relative_to(state) or state.is_relative_to(base):
        return True
    return _is_one_of(base, (state, *state.parents)) or _is_one_of(state, base.parents)


def _is_one_of(place: Path, others: Iterable[Path]) -> bool:
    """Return whether the folder is one of the others on the disk. A second mount of a folder has another name."""
    return place.exists() and any(other.exists() and os.path.samefile(place, other) for other in others)


def _components(path: str) -> tuple[str, ...]:
    if not path.startswith("/"):
        raise _refused("this path is not absolute", path, "Use the full path, which begins with /.")
    return _split(path)


def _split(path: str) -> tuple[str, ...]:
    """Return the components of a path without empty ones and `.`. Refuses `..` and all that has a second spelling."""
    if "\0" in path:
        raise _refused("a path cannot contain a NUL character", path, "Check the path.")
    try:
        size = len(path.encode("utf-8"))
    except UnicodeEncodeError:
        raise _refused("this path is not valid Unicode", ascii(path), "Send it as UTF-8.") from None
    if size > MAX_PATH_BYTES:
        raise _refused(f"this path has more than {MAX_PATH_BYTES} bytes", path[:80] + "...", "Use a shorter one.")
    if not unicodedata.is_normalized("NFC", path):
        raise _refused(
            "this path is not in Unicode normal form C, so two names could look the same",
            ascii(path),
            "Send composed characters.",
        )
    components = tuple(part for part in path.split("/") if part not in {"", "."})
    for part in components:
        if part == "..":
            raise _refused("this path has a `..` component", path, "Name the file by its direct path.")
        if len(part.encode("utf-8")) > MAX_NAME_BYTES:
            raise _refused(
                f"a component of this path has more than {MAX_NAME_BYTES} bytes",
                path[:80] + "...",
                "Use a shorter one.",
            )
    return components


def _refused(what: str, path: str, next_step: str) -> RefusedError:
    return RefusedError(Reason.PATH_REFUSED, what, where=path, next_step=next_step)
