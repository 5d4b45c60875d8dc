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


def list_calls(services: Services, bot: AgentCaller, admin: PersonCaller, name: str) -> Iterator["partial[Any]"]:
    for caller in (bot, admin):
        yield partial(services.tasks.get, caller, name)
        yield partial(services.browser.get, caller, name)
        yield partial(services.browser.read_picture, caller, name)
        yield partial(services.goals.get, caller, name, "c")
        yield partial(services.goals.get, caller, "acme", name)
    for tenant, correlation in ((name, "c"), ("acme", name)):
        for read in (services.goals.replay, services.ledger.trace, services.ledger.open_bundle):
            yield partial(read, admin, tenant, correlation)
        waiting: tuple[QuestionKind, ...] = ("goal", "confirmation")
        for kind in waiting:
            yield partial(services.inbox.show, admin, kind, correlation, tenant=tenant)
            yield partial(services.inbox.decide, admin, kind, correlation, NO, tenant=tenant)
    yield partial(services.goals.resume, bot, name)
    yield partial(services.goals.undo, bot, name)
    yield partial(services.goals.answer, admin, name, "yes")
    yield partial(services.goals.ask, bot, "are you there", reply_to=name)
    yield partial(services.ledger.read_entry, admin, name, 1)
    yield partial(services.ledger.list_entries, admin, name, cursor="x")
    yield partial(services.ledger.verify, admin, name or "\0", wait=30.0)
    kinds: tuple[QuestionKind, ...] = ("request", "plan")
    for kind in kinds:
        yield partial(services.inbox.show, admin, kind, name)
        yield partial(services.inbox.decide, admin, kind, name, NO)
    yield partial(services.inbox.read_picture, admin, name)
    yield partial(services.catalogue.list_simulations, admin, name)
    yield partial(services.catalogue.show, admin, "acme", name)
    yield partial(services.catalogue.promote, admin, "acme", name, digest="sha256:" + "0" * 64)
    yield partial(services.catalogue.retire, admin, "acme", name)
    yield partial(services.tokens.list_tokens, admin, name or "-")


def call_each(services: Services, bot: AgentCaller, admin: PersonCaller) -> Iterator[tuple[str, str, object]]:
    """What each says to each name; only a refusal will do."""
    for name in NAMES:
        for call in list_calls(services, bot, admin, name):
            try:
                yield call.func.__qualname__, name, call()
            except Exception as problem:  # noqa: BLE001 - whatever it is, it is told
                yield call.func.__qualname__, name, problem
