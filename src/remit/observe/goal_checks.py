"""Checks of the goal door: its catalogue, its policies, and whether anybody can ask for anything.

What is looked at comes in as functions: the rooms that read catalogues and policies lie above this one.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from remit.contracts.config import SystemConfig
from remit.observe.check import Check, Topic

CATALOGUE: Final = Topic("catalogue", "goals")
POLICIES: Final = Topic("access policies", "goals")
ACTIVE: Final = Topic("active simulations", "goals")
MAX_TENANTS: Final = 50
"""A check-up must stay quick."""


class Found(NamedTuple):
    """What is in the files of the catalogue: how many simulations, how much is wrong, and the first of that."""

    simulations: int
    findings: int
    first: str = ""
    advice: str = ""


def check_goals(
    config: SystemConfig,
    look: Callable[[], Found],
    require_policies: Callable[[], object],
    count_active: Callable[[str], int],
) -> list[Check]:
    """One check where there is no goal door; otherwise one for each of the three things that it needs."""
    if not (config.goals.catalogue or config.policies.cedar_files or config.tenants):
        advice = "If users shall have things done by asking: name files in remit.yaml, goals: {catalogue: [...]}"
        return [CATALOGUE.absent("none: nobody can ask for anything", advice)]
    catalogue = CATALOGUE.ask(lambda: _check_catalogue(config, look()))
    if catalogue.status != "ok":
        return [catalogue]  # the others would say the same again
    tenants = sorted(config.tenants)[:MAX_TENANTS]
    return [
        catalogue,
        POLICIES.ask(lambda: _check_policies(config, require_policies)),
        ACTIVE.ask(lambda: _check_active({tenant: count_active(tenant) for tenant in tenants})),
    ]


def _check_catalogue(config: SystemConfig, found: Found) -> Check:
    if not config.goals.catalogue:
        return CATALOGUE.warn("no file is named, so nothing can be asked for", "Name files: goals: {catalogue: [...]}")
    if found.findings:
        others = f"; and {found.findings - 1} more: remit catalogue check" if found.findings > 1 else ""
        return CATALOGUE.fail(f"{found.first}{others}", found.advice or "See: remit catalogue check")
    files = len(config.goals.catalogue)
    return CATALOGUE.ok(f"{_counted(found.simulations, 'simulation')} in {_counted(files, 'file')}")


def _check_policies(config: SystemConfig, require: Callable[[], object]) -> Check:
    """One that does not validate denies everybody everything, so it is a failure, and not a warning."""
    if not config.policies.cedar_files:
        return POLICIES.warn("none, so every user is denied everything", "Name a file: policies: {cedar_files: [...]}")
    require()
    return POLICIES.ok(f"{_counted(len(config.policies.cedar_files), 'file')}, valid")


def _check_active(counts: Mapping[str, int]) -> Check:
    if not counts:
        return ACTIVE.warn("remit.yaml names no tenant", "Name one, and its users: tenants: {acme: {users: [mia]}}")
    told = ", ".join(f"{number} for {tenant}" for tenant, number in list(counts.items())[:5])
    if not any(counts.values()):
        return ACTIVE.warn("none: every simulation is a draft", "Read one, then: remit catalogue promote ID")
    return ACTIVE.ok(told)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
