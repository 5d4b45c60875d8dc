"""Where the page that answers a form belongs.

Such a page stands at an address that takes forms and nothing else: whoever loads it again, and the script that asks for
it anew, mean the page on which the form was. So each of these addresses is also one to go to, and leads there.
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
"""By the address of the form. What it is about is in the form's query too: a page that is asked for has no body."""


def find_page(path: str, query: Query) -> str:
    """Empty where the address is that of a page itself."""
    found = REDIRECTED_PATHS.get(path)
    return found(query) if found is not None else ""
