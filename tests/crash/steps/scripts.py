"""What happens to each goal: its composite, what its user answers, what fails, and how it ends then."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.crash.steps.office import (
    CHANGED,
    COMPOSITES,
    OBSTACLE,
    WITH_ROWS,
    StepsOffice,
    effects_of,
    full_name,
    utterance,
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A way that a goal goes. Every step that is not named here is answered with yes, and succeeds."""

    name: str
    composite: str
    ending: str
    remains: tuple[str, ...] = ()
    """The steps whose effect is there at the end."""
    no_at: str = ""
    waits_at: str = ""
    """The step that nobody answers."""
    fails_at: str = ""
    """The step that cannot take effect. It has an obstacle."""
    free_from: int = 0
    """The attempt before which the obstacle is taken away. 0: it never is."""
    changed_at: str = ""
    """The step whose effect another program changes before the user says no, so that it cannot be rolled back."""
    undo: str = ""
    """What the user answers to the question whether the whole goal is rolled back. Empty: nobody asks for it."""


def _completes(composite: str) -> Kind:
    steps = tuple(each["id"] for each in COMPOSITES[composite] if each["simulation"] not in {"look", "find"})
    return Kind(f"{composite} completes", composite, "COMPLETED", steps)


_NEVER_ENDS: Final = "STARTED"
KINDS: Final = (
    _completes("pair"),
    _completes("mixed"),
    Kind("no at the third of four", "mixed", "ABORTED_ROLLED_BACK", no_at="row"),
    _completes("again"),
    Kind("a failure is tried again", "again", "COMPLETED", ("copy", "other", "log"), fails_at="other", free_from=2),
    Kind(
        "a failure is tried twice more", "again", "COMPLETED", ("copy", "other", "log"), fails_at="other", free_from=3
    ),
    Kind("a failure for good", "again", "ABORTED_ROLLED_BACK", fails_at="other"),
    _completes("codes"),
    Kind("a plan that cannot run", "pair", "ABORTED_ROLLED_BACK", fails_at="log"),
    Kind("a policy forbids the third step", "secret", "ABORTED_ROLLED_BACK"),
    _completes("graph"),
    Kind("no, and the steps are kept", "keep", "ABORTED_PARTIAL", ("copy", "log"), no_at="other"),
    Kind("no, and a rollback fails", "again", "ABORTED_PARTIAL", ("copy",), no_at="log", changed_at="copy"),
    _completes("long"),
    Kind("nobody answers the third step", "mixed", _NEVER_ENDS, ("copy",), waits_at="row"),
    Kind("no at the first step", "pair", "REFUSED", no_at="copy"),
    Kind("completes and is rolled back", "pair", "ROLLED_BACK", undo="yes"),
    Kind("completes, and is not rolled back after all", "again", "COMPLETED", ("copy", "other", "log"), undo="no"),
    Kind("no at the last of six", "long", "ABORTED_ROLLED_BACK", no_at="coded"),
    Kind("a row is rolled back with the whole", "mixed", "ROLLED_BACK", undo="yes"),
    Kind("no after a row", "codes", "ABORTED_ROLLED_BACK", no_at="copy"),
)


@dataclass(frozen=True, slots=True)
class Script:
    """One goal."""

    number: int
    correlation_id: str
    kind: Kind
    lane: str

    @property
    def a(self) -> str:
        return f"goal-{self.number}-a"

    @property
    def b(self) -> str:
        return f"goal-{self.number}-b"

    @property
    def composite(self) -> str:
        """Its id in the catalogue."""
        return full_name(self.kind.composite, self.lane)

    @property
    def utterance(self) -> str:
        return utterance(self.kind.composite, self.lane, a=self.a, b=self.b, n=self.number)

    @property
    def effects(self) -> dict[str, tuple[str, str]]:
        return effects_of(self.kind.composite, a=self.a, b=self.b, n=self.number)

    @property
    def writes_rows(self) -> bool:
        """Two plans that change one database at once are in each other's way, so they take turns."""
        return self.kind.composite in WITH_ROWS

    def answer(self, step: str) -> str:
        return "no" if step == self.kind.no_at else "yes"

    def prepare(self, office: StepsOffice) -> None:
        """Before the goal is asked for."""
        office.log(self.a).write_text("begin\nend\n", encoding="utf-8")
        if self.kind.fails_at == "log":
            office.log(self.a).unlink()
        elif self.kind.fails_at:
            office.file(self.b).write_text(OBSTACLE, encoding="utf-8")

    def before_attempt(self, office: StepsOffice, attempt: int) -> None:
        """Before a step is tried again. It may be done any number of times."""
        path = office.file(self.b)
        if attempt == self.kind.free_from and path.exists() and path.read_text(encoding="utf-8") == OBSTACLE:
            path.unlink()

    def before_answer(self, office: StepsOffice, step: str) -> None:
        """Before the question of a step is answered. It may be done any number of times."""
        if self.kind.changed_at and step == self.kind.no_at:
            office.file(self.a).write_text(CHANGED, encoding="utf-8")


def write_scripts(office: StepsOffice, correlations: Sequence[str], kinds: Sequence[Kind] = KINDS) -> list[Script]:
    """One script for each goal. The kinds take turns, and so do the lanes."""
    found = []
    for number, correlation_id in enumerate(correlations):
        kind = kinds[number % len(kinds)]
        found.append(Script(number, correlation_id, kind, office.lanes[number % len(office.lanes)]))
    return found
