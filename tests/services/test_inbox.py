"""The inbox: what waits, what a person sees of it, his answer, and why something is closed without one."""

import os

import pytest

from remit.contracts.services.common import Decision
from remit.core.errors import Reason, RefusedError
from remit.identity.callers import Caller, PersonCaller
from remit.identity.person import Person
from remit.services.services import Services
from tests.approvals.conftest import question
from tests.goals.goal_office import Office
from tests.services.conftest import CONSOLE, agent, person

PNG = b"\x89PNG\r\n\x1a\n and the rest"


def test_a_held_request_is_shown_to_people_and_decided_by_an_approver(services: Services, office: Office) -> None:
    approvals = office.workspace.approvals
    asked = approvals.ask(question(1, agent_id="bot"))
    [line] = services.inbox.list_open(person("viewer"))
    assert (line.kind, line.id, line.asked_by, line.state) == ("request", asked.approval_id, "agent:bot", "PENDING")
    assert line.title == "POST https://shop.example/pay: Buys tea"
    assert line.link == f"{CONSOLE}/inbox/request/{asked.approval_id}"
    assert services.inbox.count_open()["request"] == (1, asked.created_at)
    view = services.inbox.show(person("viewer"), "request", line.id)
    assert view.request is not None
    assert (view.request.body, view.request.masked) == ({"item": "tea"}, {"card": "****-****-****-1234"})
    yes = Decision(approved=True, shown_digest=view.request.request_digest)
    unable: list[Caller] = [
        person("viewer"),
        person("operator"),
        agent(office.workspace),
        agent(office.workspace, sub="x"),
    ]
    for caller in unable:
        with pytest.raises(RefusedError) as refused:
            services.inbox.decide(caller, "request", line.id, yes)
        assert refused.value.reason is Reason.PERMISSION_DENIED
    approver = person("approver")
    for unsaid in (Decision(approved=True), Decision(approved=True, shown_digest="sha256:" + "0" * 64)):
        with pytest.raises(RefusedError) as refused:
            services.inbox.decide(approver, "request", line.id, unsaid)
        assert refused.value.reason is Reason.HASH_MISMATCH
    for unfit in (Decision(), Decision(approved=True, answer="yes")):
        with pytest.raises(RefusedError) as refused:
            services.inbox.decide(approver, "request", line.id, unfit)
        assert refused.value.reason is Reason.MALFORMED
    for name in (line.id[:8], "../" + line.id, "x" * 36):
        with pytest.raises(RefusedError):
            services.inbox.decide(approver, "request", name, Decision(approved=False))
    decided = services.inbox.decide(approver, "request", line.id, yes)
    assert (decided.state, decided.decided_by) == ("APPROVED", "login:ann")
    assert services.inbox.list_open(person("viewer")) == []


def test_a_closed_request_says_how_and_why_it_was_closed(services: Services, office: Office) -> None:
    approvals = office.workspace.approvals
    denied, gone = (approvals.ask(question(number)) for number in (11, 12))
    services.inbox.decide(person(), "request", denied.approval_id, Decision(approved=False, reason="no tea today"))
    approvals.void([gone.approval_id], "the process that held the request is gone")
    closed = {each.id: each for each in services.inbox.list_recent(person("viewer"))}
    assert (closed[denied.approval_id].state, closed[denied.approval_id].reason) == ("DENIED", "no tea today")
    assert (closed[gone.approval_id].state, closed[gone.approval_id].reason) == (
        "VOID",
        "the process that held the request is gone",
    )
    assert services.inbox.show(person("viewer"), "request", gone.approval_id).question.state == "VOID"
    with pytest.raises(RefusedError):
        services.inbox.list_recent(agent(office.workspace))


def test_an_agent_has_no_inbox(services: Services, office: Office) -> None:
    asked = office.workspace.approvals.ask(question(21, agent_id="bot"))
    bot = agent(office.workspace)
    for look in (
        lambda: services.inbox.list_open(bot),
        lambda: services.inbox.show(bot, "request", asked.approval_id),
        lambda: services.inbox.read_picture(bot, asked.approval_id),
    ):
        with pytest.raises(RefusedError) as refused:
            look()
        assert refused.value.reason is Reason.PERMISSION_DENIED
    office.workspace.approvals.void([asked.approval_id], "over")


def test_only_pictures_are_handed_out_whatever_a_row_says(services: Services, office: Office) -> None:
    state, approvals = office.workspace.state.path, office.workspace.approvals
    folder = state / "browser" / "screens"
    folder.mkdir(parents=True)
    name = "0123456789abcdef" * 2 + ".png"
    (folder / name).write_bytes(PNG)
    secret = state / "keys" / "secret.png"
    secret.write_bytes(PNG + b" secret")
    linked, fake, pipe = ("a" * 32 + ".png", "b" * 32 + ".png", "c" * 32 + ".png")
    (folder / linked).symlink_to(secret)
    (folder / fake).write_text("no picture: a key, perhaps")
    os.mkfifo(folder / pipe)
    good = approvals.ask(question(31, screenshot=str(folder / name)))
    assert services.inbox.read_picture(person("viewer"), good.approval_id) == PNG
    approvals.void([good.approval_id], "over")
    elsewhere = (str(secret), "/etc/passwd", f"../../keys/{secret.name}", None, "", ".")
    in_the_folder = tuple(str(folder / each) for each in (linked, fake, pipe, "d" * 32 + ".png", "other.png"))
    (folder / "other.png").write_bytes(PNG)  # not a name that Remit gives
    for number, place in enumerate((*elsewhere, *in_the_folder)):
        asked = approvals.ask(question(40 + number, screenshot=place))
        with pytest.raises(RefusedError) as refused:
            services.inbox.read_picture(person("admin"), asked.approval_id)
        assert refused.value.reason is Reason.STATE_MISSING, place
        approvals.void([asked.approval_id], "over")


def test_no_person_approves_a_goal_of_their_own_user_or_one_that_they_asked_for(
    services: Services, office: Office
) -> None:
    boss = PersonCaller(Person("link:boss"), "admin", "leo", "acme")
    bot = agent(office.workspace, "goal.ask", user="leo")
    now_nobody = PersonCaller(Person("link:boss"), "admin")
    himself: dict[Caller, list[PersonCaller]] = {
        boss: [boss, now_nobody, PersonCaller(Person("link:boss"), "admin", "mia", "acme")],
        bot: [boss, *(PersonCaller(Person(f"{kind}:leo"), "admin") for kind in ("os", "link", "oidc"))],
    }
    for number, (asker, unable) in enumerate(himself.items()):
        asked = services.goals.ask(asker, f"copy the form as own{number}", wait=30.0)
        if asked.waiting_for == "confirmation":
            services.inbox.decide(boss, "confirmation", asked.correlation_id, Decision(answer="yes"))
        for who in unable:
            for approved in (True, False):
                with pytest.raises(RefusedError) as refused:
                    services.inbox.decide(who, "goal", asked.correlation_id, Decision(approved=approved), tenant="acme")
                assert refused.value.reason is Reason.PERMISSION_DENIED, who
        able = now_nobody if asker is bot else PersonCaller(Person("link:other"), "approver", "leo", "globex")
        services.inbox.decide(able, "goal", asked.correlation_id, Decision(approved=True), tenant="acme")
        assert services.goals.resume(asker, asked.correlation_id, 30.0).state == "done"
