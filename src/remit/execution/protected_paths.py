"""Files that a plan may touch only with an approval of their own, and those that it may never touch. Pure.

Compared without regard to case, in Unicode normal form C, and without characters that cannot be seen: on some disks
`.ENV` is `.env`, and a name with a zero-width space is the name without it (ext4 with `casefold`). Dots and blanks at
the end count for nothing either: other disks (vfat, exFAT, shares of Windows) cut them off.
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
"""Below the root: reports, backups and logs of plans."""

PART_NAME: Final = re.compile(r"\.remit-[0-9a-f]{24}\.part")
"""Bytes on their way, and files set aside."""

_IGNORABLE: Final = re.compile("[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in DEFAULT_IGNORABLE) + "]")


def group_of(path: str, protected: Protected) -> Group | None:
    """Which group protects this path, relative to the root; or None. A pattern holds below every folder too."""
    return _group_of(path, protected.critical, protected.important, protected.agent_system)


@functools.lru_cache(maxsize=4_096)  # a plan's paths are asked for several times on its way
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
    """The same for a workspace: the files that its goal door acts by are protected too, each by its own path.

    Those of the catalogue: changed ones are drafts until somebody promotes them, but what they say is shown to users.
    """
    group = group_of(path, config.protected)
    if group is None and folded(path) in map(folded, config.goals.catalogue):
        return "agent_system"
    return group


def is_forbidden(path: str, config: SystemConfig) -> str:
    """Why no approval helps for this path, relative to the root; or an empty text."""
    components = folded(path)
    if components and components[0] in OWN_FOLDERS:
        return f"{components[0]} holds what Remit keeps of plans, so no plan touches it"
    if components[-1:] == (CONFIG_NAME,):
        return f"{CONFIG_NAME} says what Remit may do, so no plan touches it"
    if components[-1:] == (WAIVERS_NAME,):
        return f"{WAIVERS_NAME} says which breach of a service level is let pass, so no plan touches it"
    if any(PART_NAME.fullmatch(part) for part in components):
        return "files of this name are work in progress, so no plan touches them"
    if components in map(folded, config.policies.cedar_files):
        return "this policy says who may do what, so no plan touches it"
    return ""


def is_own_folder(components: Iterable[str]) -> bool:
    """Whether a path leads into a folder where Remit keeps what it needs to take plans back."""
    return any(_fold_name(part) in OWN_FOLDERS for part in components)


def folded(path: str) -> tuple[str, ...]:
    return tuple(map(_fold_name, path.split("/"))) if (path := plain_spelling(path)) else ()


def _fold(text: str) -> str:
    if text.isascii():
        return text.lower()
    # Once more composed: folding may take a character apart.
    seen = unicodedata.normalize("NFC", _IGNORABLE.sub("", unicodedata.normalize("NFD", text)))
    return unicodedata.normalize("NFC", seen.casefold())


def _fold_name(text: str) -> str:
    """One component. What would be nothing then stays as it is."""
    plain = _fold(text)
    return plain.rstrip(". ") or plain


Part = Callable[[str], object]
"""Whether a component is meant."""


class _GlobSet(NamedTuple):
    """Globs sorted by how they are looked up. Most are a name, a folder, or a name with one star at an end.

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
                # `**` comes before each of them, and None stands for it.
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
    """`**` stands for any number of components, none included; `*`, `?` and `[...]` stay within one."""
    # How many components the pattern so far can stand for, from the first on: no way to guess wrong and try again.
    reached: Collection[int] = (0,)
    for part in pattern:
        if part is None:
            reached = range(min(reached), len(components) + 1)
        else:
            reached = [at + 1 for at in reached if at < len(components) and part(components[at])]
        if not reached:
            return False
    return len(components) in reached
