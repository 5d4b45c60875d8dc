"""Names that are none, given wherever the desk takes a name: the answer is that there is no such thing."""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from remit.contracts.services.common import Decision, QuestionKind
from remit.identity.callers import AgentCaller, PersonCaller
from remit.services.services import Services

NAMES: Final = (
    *("", "\0", "a\0b", "\ud800", "a\nb", "\u202eabc"),
    *("../../etc/passwd", "'; DROP TABLE claims; --", "x" * 201, "%"),
)
NO: Final = Decision(approved=False)


def asked_with(desk: Services, bot: AgentCaller, admin: PersonCaller, name: str) -> Iterator["partial[Any]"]:
    for caller in (bot, admin):
        yield partial(desk.tasks.get, caller, name)
        yield partial(desk.browser.get, caller, name)
        yield partial(desk.browser.read_picture, caller, name)
        yield partial(desk.goals.get, caller, name, "c")
        yield partial(desk.goals.get, caller, "acme", name)
    for tenant, correlation in ((name, "c"), ("acme", name)):
        for look in (desk.goals.replay, desk.ledger.trace, desk.ledger.open_bundle):
            yield partial(look, admin, tenant, correlation)
        waiting: tuple[QuestionKind, ...] = ("goal", "confirmation")
        for kind in waiting:
            yield partial(desk.inbox.show, admin, kind, correlation, tenant=tenant)
            yield partial(desk.inbox.decide, admin, kind, correlation, NO, tenant=tenant)
    yield partial(desk.goals.resume, bot, name)
    yield partial(desk.goals.undo, bot, name)
    yield partial(desk.goals.answer, admin, name, "yes")
    yield partial(desk.goals.ask, bot, "are you there", reply_to=name)
    yield partial(desk.ledger.read_entry, admin, name, 1)
    yield partial(desk.ledger.list_entries, admin, name, cursor="x")
    yield partial(desk.ledger.verify, admin, name or "\0", wait=30.0)
    asked: tuple[QuestionKind, ...] = ("request", "plan")
    for kind in asked:
        yield partial(desk.inbox.show, admin, kind, name)
        yield partial(desk.inbox.decide, admin, kind, name, NO)
    yield partial(desk.inbox.read_picture, admin, name)
    yield partial(desk.catalogue.list_simulations, admin, name)
    yield partial(desk.catalogue.show, admin, "acme", name)
    yield partial(desk.catalogue.promote, admin, "acme", name, digest="sha256:" + "0" * 64)
    yield partial(desk.catalogue.retire, admin, "acme", name)
    yield partial(desk.tokens.list_tokens, admin, name or "-")


def answers_to(desk: Services, bot: AgentCaller, admin: PersonCaller) -> Iterator[tuple[str, str, object]]:
    """What each says to each name; only a refusal will do."""
    for name in NAMES:
        for ask in asked_with(desk, bot, admin, name):
            try:
                yield ask.func.__qualname__, name, ask()
            except Exception as problem:  # noqa: BLE001 - whatever it is, it is told
                yield ask.func.__qualname__, name, problem
