"""Pure checks for files that a plan may change only with a separate approval, and for files that it may never change.

Names are compared without regard to case, in Unicode normal form C, and without invisible characters. On some disks
(ext4 with `casefold`) `.ENV` is `.env`, and a name with a zero-width space is the name without it. Dots and blanks at
the end are ignored too, because other disks (vfat, exFAT, shares of Windows) remove them.
"""

import fnmatch
import functools
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

from remit.contracts.config.config import CONFIG_NAME, Protected, SystemConfig
from remit.contracts.config.protected_files import Group
from remit.contracts.goals.slo import WAIVERS_NAME
from remit.core.text import DEFAULT_IGNORABLE
from remit.fs.paths import plain_spelling

OWN_FOLDERS: Final = frozenset({"agent_outputs", "agent_logs"})
"""Folders below the root that hold reports, backups and logs of plans."""

PART_NAME: Final = re.compile(r"\.remit-[0-9a-f]{24}\.part")
"""The names of files that are being written, and of originals during a change."""

_IGNORABLE: Final = re.compile("[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in DEFAULT_IGNORABLE) + "]")


def group_of(path: str, protected: Protected) -> Group | None:
    """Return the group that protects this path, relative to the root, or None. A pattern matches at any depth."""
    return _group_of(path, protected.critical, protected.important, protected.agent_system)


@functools.lru_cache(maxsize=4_096)  # each path of a plan is checked several times
def _group_of(
    path: str, critical: tuple[str, ...], important: tuple[str, ...], agent_system: tuple[str, ...]
) -> Group | None:
    components = folded(path)
    groups: tuple[tuple[Group, tuple[str, ...]], ...] = (
        ("critical", critical),
        ("important", important),
        ("agent_system", agent_system),
    )
    for group, globs in groups:
        if _glob_set(globs).covers(components):
            return group
    return None


def protecting_group(path: str, config: SystemConfig) -> Group | None:
    """Return the group that protects this path in a workspace. Files of the goal catalogue are protected too.

    A changed file of the catalogue is a draft until a person promotes it, but users see its text.
    """
    group = group_of(path, config.protected)
    if group is None and folded(path) in map(folded, config.goals.catalogue):
        return "agent_system"
    return group


def is_named_by(path: str, globs: Iterable[str]) -> bool:
    """Whether one of the globs names this path, both relative to the root. Case matters, and nothing is folded.

    A glob that permits something must not match more than its reader expects. So, unlike a glob that protects, it
    matches from the root and only the exact characters.
    """
    if not (path := plain_spelling(path)):
        return False
    components = tuple(path.split("/"))
    if ".." in components:
        return False
    return any(_matches(_exact_parts(glob), components) for glob in globs)


def is_forbidden(path: str, config: SystemConfig) -> str:
    """Return why no approval can allow this path, relative to the root; or an empty text."""
    components = folded(path)
    if components and components[0] in OWN_FOLDERS:
        return f"{components[0]} holds reports and backups of Remit, so no plan may change it"
    if components[-1:] == (CONFIG_NAME,):
        return f"{CONFIG_NAME} says what Remit may do, so no plan may change it"
    if components[-1:] == (WAIVERS_NAME,):
        return f"{WAIVERS_NAME} says which breaches of a service level are accepted, so no plan may change it"
    if any(PART_NAME.fullmatch(part) for part in components):
        return "Remit uses files with such names during a change, so no plan may change them"
    if components in map(folded, config.policies.cedar_files):
        return "this policy says who may do what, so no plan may change it"
    return ""


def is_own_folder(components: Iterable[str]) -> bool:
    """Whether a path leads into a folder where Remit keeps rollback data of plans."""
    return any(_fold_name(part) in OWN_FOLDERS for part in components)


def folded(path: str) -> tuple[str, ...]:
    return tuple(map(_fold_name, path.split("/"))) if (path := plain_spelling(path)) else ()


def _fold(text: str) -> str:
    if text.isascii():
        return text.lower()
    # Composed again, because folding may decompose a character.
    seen = unicodedata.normalize("NFC", _IGNORABLE.sub("", unicodedata.normalize("NFD", text)))
    return unicodedata.normalize("NFC", seen.casefold())


def _fold_name(text: str) -> str:
    """Fold one component. A component of nothing but dots and blanks stays as it is."""
    plain = _fold(text)
    return plain.rstrip(". ") or plain


Part = Callable[[str], object]
"""Whether a component matches."""


@functools.lru_cache(maxsize=256)
def _exact_parts(glob: str) -> tuple[Part | None, ...]:
    parts = (glob + "**" if glob.endswith("/") else glob).split("/")
    # `docs/**` names everything below docs, and not a file with the name docs.
    return tuple(map(_part, [*parts, "*"] if parts[-1] == "**" else parts))


class _GlobSet(NamedTuple):
    """Globs grouped by how they are matched. Most are a name, a folder, or a name with one star at an end.

    The built-in list has several hundred globs, and a pipeline asks for every file of a folder.
    """

    names: frozenset[str]
    prefixes: tuple[str, ...]
    suffixes: tuple[str, ...]
    folders: frozenset[str]
    others: tuple[tuple[Part | None, ...], ...]

    def covers(self, components: tuple[str, ...]) -> bool:
        last = components[-1] if components else ""
        if last in self.names or last.startswith(self.prefixes) or last.endswith(self.suffixes):
            return True
        return not self.folders.isdisjoint(components) or any(_matches(other, components) for other in self.others)


@functools.lru_cache(maxsize=32)
def _glob_set(globs: tuple[str, ...]) -> _GlobSet:
    names: set[str] = set()
    prefixes: list[str] = []
    suffixes: list[str] = []
    folders: set[str] = set()
    others: list[tuple[Part | None, ...]] = []
    for glob in globs:
        parts = folded(glob + "**" if glob.endswith("/") else glob)
        match parts:
            case [name] if _is_plain(name):
                names.add(name)
            case [name] if name != "**" and name.endswith("*") and _is_plain(name[:-1]):
                prefixes.append(name[:-1])
            case [name] if name != "**" and name.startswith("*") and _is_plain(name[1:]):
                suffixes.append(name[1:])
            case [name, "**"] if _is_plain(name):
                folders.add(name)
            case _:
                # Each pattern matches at any depth, so `**` comes first. None represents `**`.
                others.append((None, *map(_part, parts)))
    return _GlobSet(frozenset(names), tuple(prefixes), tuple(suffixes), frozenset(folders), tuple(others))


def _is_plain(name: str) -> bool:
    return not set("*?[") & set(name)


def _part(glob: str) -> Part | None:
    if glob == "**":
        return None
    if _is_plain(glob):
        return glob.__eq__
    return re.compile(fnmatch.translate(glob)).match


def _matches(pattern: tuple[Part | None, ...], components: tuple[str, ...]) -> bool:
    """Whether the pattern matches. `**` matches any number of components, also none; `*`, `?` and `[...]` only one."""
    # The numbers of leading components that the pattern so far can match. So there is no backtracking.
    reached: Collection[int] = (0,)
    for part in pattern:
        if part is None:
            reached = range(min(reached), len(components) + 1)
        else:
            reached = [at + 1 for at in reached if at < len(components) and part(components[at])]
        if not reached:
            return False
    return len(components) in reached
