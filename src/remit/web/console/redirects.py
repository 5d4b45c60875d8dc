"""The page that belongs to each form address.

The response to a form has an address that accepts only forms. A reload by the person or by the script must show the
page that the form was on. So a GET of each form address redirects to that page.
"""

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import quote

from remit.web.console.templating import address

Query = Mapping[str, str]


def _run(query: Query) -> str:
    name = query.get("name", "")
    return f"/runs/{quote(name, safe='')}" if name.strip(".") else "/runs"


def _question(query: Query) -> str:
    if not query.get("id"):
        return "/inbox"
    return address("/inbox/question", kind=query.get("kind"), tenant=query.get("tenant"), id=query["id"])


def _goal(query: Query) -> str:
    return address("/goals/one", tenant=query.get("tenant"), id=query["id"]) if query.get("id") else "/goals"


def _simulation(query: Query) -> str:
    if not query.get("id"):
        return _catalogue(query)
    return address("/catalogue/simulation", tenant=query.get("tenant"), id=query["id"])


def _catalogue(query: Query) -> str:
    return address("/catalogue", tenant=query.get("tenant"))


REDIRECTED_PATHS: Final[dict[str, Callable[[Query], str]]] = {
    "/inbox/answer": _question,
    "/inbox/compute": _question,
    "/inbox/withdraw": _question,
    "/runs/apply": _run,
    "/runs/cancel": _run,
    "/runs/undo": _run,
    "/goals/ask": lambda _: "/goals",
    "/goals/go-on": _goal,
    "/goals/undo": _goal,
    "/catalogue/promote": _simulation,
    "/catalogue/retire": _catalogue,
    "/tokens/issue": lambda _: "/tokens",
    "/tokens/revoke": lambda _: "/tokens",
    "/people/invite": lambda _: "/people",
    "/people/remove": lambda _: "/people",
}
"""The page by the address of the form. The form's query contains the id too, because a GET has no body."""


def find_page(path: str, query: Query) -> str:
    """Return the page of a form address. Empty if the address is a page itself."""
    found = REDIRECTED_PATHS.get(path)
    return found(query) if found is not None else ""
