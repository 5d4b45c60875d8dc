"""Goals in the inbox over HTTP: waiting for another person, and decided."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.goals.goal_office import Office
from tests.support.web_server import ServedWorkspace


@pytest.fixture
def site(tmp_path: Path) -> Iterator[ServedWorkspace]:
    office = Office(tmp_path, web={"port": 0})
    served = ServedWorkspace(office.workspace)
    for name in ("g-yes", "g-no"):
        office.done(f"copy the form as {name}", user="leo", correlation_id=name)
    yield served
    served.close()
    office.close()


@pytest.mark.req("AC-06")
def test_a_decided_goal_says_who_decided_it_and_when_and_stays_in_the_list_of_closed_requests(
    site: ServedWorkspace,
) -> None:
    assert site.get("/v1/inbox/closed", site.admin).tree["items"] == []
    decided = {}
    for name, approved, reason in (("g-yes", True, None), ("g-no", False, "not today")):
        place = f"/v1/inbox/goal/{name}"
        waiting = site.get(f"{place}?tenant=acme", site.admin).tree
        assert (waiting["question"]["state"], waiting["question"]["decided_at"]) == ("PENDING", None)
        said = {"approved": approved} | ({"reason": reason} if reason else {})
        answer = site.post(f"{place}/decision?tenant=acme", said, site.admin)
        assert answer.status == 200, answer.body
        decided[name] = answer.tree
        assert answer.tree["state"] == ("APPROVED" if approved else "DENIED")
        assert (answer.tree["decided_by"], answer.tree["reason"]) == ("link:admin", reason)
        assert answer.tree["decided_at"] >= answer.tree["created_at"]
        shown = site.get(f"{place}?tenant=acme", site.admin).tree
        assert (shown["question"], shown["goal"]) == (answer.tree, waiting["goal"])
        again = site.post(f"{place}/decision?tenant=acme", said, site.admin)
        assert again.status == 409, again.body
    closed = site.get("/v1/inbox/closed", site.admin).tree["items"]
    assert closed == [decided["g-no"], decided["g-yes"]]
    assert site.get("/v1/inbox", site.admin).tree["items"] == []
    page = site.get("/inbox", site.admin, Accept="text/html").body.decode()
    for one in decided.values():
        assert f"id={one['id']}" in page
        question = site.get(f"/inbox/question?kind=goal&tenant=acme&id={one['id']}", site.admin, Accept="text/html")
        assert (question.status, "copy" in question.body.decode().lower()) == (200, True)
        assert 'value="approve"' not in question.body.decode()
