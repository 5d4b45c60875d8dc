"""Checks of goals: the catalogue, the access policies, and the active simulations.

Functions that read them are arguments, because the packages that read catalogues and policies are above this one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from remit.contracts.config.config import SystemConfig
from remit.core.ids import tenant_flag
from remit.diagnostics.check import Check, Topic

CATALOGUE: Final = Topic("catalogue", "goals")
POLICIES: Final = Topic("access policies", "goals")
ACTIVE: Final = Topic("active simulations", "goals")
CHANGED: Final = Topic("changed simulations", "goals")
GONE: Final = Topic("missing simulations", "goals")
MAX_TENANTS: Final = 50
"""A limit, so that `remit doctor` stays quick."""
SHOWN: Final = 5


class FileFindings(NamedTuple):
    """The state of the files: the number of simulations or policies, the number of mistakes, and the first mistake."""

    number: int
    findings: int
    first: str = ""
    advice: str = ""


class Promoted(NamedTuple):
    """The simulations that people have made ACTIVE for a tenant: the number that can be used, and those that cannot."""

    active: int
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


def check_goals(
    config: SystemConfig,
    read_catalogue: Callable[[], FileFindings],
    read_policies: Callable[[], FileFindings],
    read_promoted: Callable[[str], Promoted],
) -> list[Check]:
    """Return one check for each of the three requirements of goals, or a single check if goals are not configured.

    If promoted simulations can no longer be used, further checks name them, because nothing else reports them.
    """
    if not (config.goals.catalogue or config.policies.cedar_files or config.tenants):
        advice = "To let users request actions in words, name files in remit.yaml: goals: {catalogue: [...]}"
        return [CATALOGUE.absent("none, so users cannot request anything", advice)]
    catalogue = CATALOGUE.run(lambda: _check_catalogue(config, read_catalogue()))
    if catalogue.status != "ok":
        return [catalogue]  # the other checks would fail for the same reason
    promoted: dict[str, Promoted] = {}

    def active() -> Check:
        promoted.update((tenant, read_promoted(tenant)) for tenant in sorted(config.tenants)[:MAX_TENANTS])
        return _check_active({tenant: each.active for tenant, each in promoted.items()})

    return [
        catalogue,
        POLICIES.run(lambda: _check_policies(config, read_policies)),
        ACTIVE.run(active),
        *_unusable(config, promoted),
    ]


def _check_catalogue(config: SystemConfig, found: FileFindings) -> Check:
    if not config.goals.catalogue:
        return CATALOGUE.warn(
            "no file is named, so users cannot request anything", "Name files: goals: {catalogue: [...]}"
        )
    if found.findings:
        return _failed(CATALOGUE, found)
    files = len(config.goals.catalogue)
    return CATALOGUE.ok(f"{_counted(found.number, 'simulation')} in {_counted(files, 'file')}")


def _check_policies(config: SystemConfig, read_policies: Callable[[], FileFindings]) -> Check:
    """Check the access policies. An invalid policy denies every user everything, so it is a failure, not a warning."""
    if not config.policies.cedar_files:
        return POLICIES.warn("none, so every user is denied everything", "Name a file: policies: {cedar_files: [...]}")
    found = read_policies()
    if found.findings:
        return _failed(POLICIES, found)
    return POLICIES.ok(f"{_counted(found.number, 'file')}, valid")


def _failed(topic: Topic, found: FileFindings) -> Check:
    others = f"; and {found.findings - 1} more: remit catalogue check" if found.findings > 1 else ""
    return topic.fail(f"{found.first}{others}", found.advice or "See: remit catalogue check")


def _unusable(config: SystemConfig, promoted: Mapping[str, Promoted]) -> Iterator[Check]:
    changed = [(name, tenant) for tenant, each in promoted.items() for name in each.changed]
    if changed:
        about = _first_argument(config, changed)
        what = (
            f"{_list_some(changed)}: its file has changed since a person promoted it, so it is a draft that users"
            " cannot use"
        )
        yield CHANGED.warn(what, f"Read it: remit catalogue show {about}; then: remit catalogue promote {about}")
    gone = [(name, tenant) for tenant, each in promoted.items() for name in each.gone]
    if gone:
        what = f"{_list_some(gone)}: promoted, but no longer in any file of the catalogue, so users cannot use it"
        yield GONE.warn(
            what, f"Add it to a file again, or retire it: remit catalogue retire {_first_argument(config, gone)}"
        )


def _list_some(found: Sequence[tuple[str, str]]) -> str:
    listed = ", ".join(f"{name} for {tenant}" for name, tenant in found[:SHOWN])
    return f"{listed} and {len(found) - SHOWN} more" if len(found) > SHOWN else listed


def _first_argument(config: SystemConfig, found: Sequence[tuple[str, str]]) -> str:
    """Return the first simulation as an argument of a command. The message names the others."""
    name, tenant = found[0]
    return f"{name}{tenant_flag(tenant, config.tenants)}"


def _check_active(counts: Mapping[str, int]) -> Check:
    if not counts:
        return ACTIVE.warn("remit.yaml names no tenant", "Name a tenant and its users: tenants: {acme: {users: [mia]}}")
    listed = ", ".join(f"{number} for {tenant}" for tenant, number in list(counts.items())[:5])
    if not any(counts.values()):
        flag = " --tenant TENANT" if len(counts) > 1 else ""
        return ACTIVE.warn(
            "none, because every simulation is a draft", f"Read one, then: remit catalogue promote ID{flag}"
        )
    return ACTIVE.ok(listed)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
