"""What `remit token issue` is asked to allow, read strictly; what is not understood is answered with what to write."""

import re
from collections.abc import Collection
from typing import Any, Final
from urllib.parse import urlsplit

import click

from remit.contracts.browser.capabilities import BROWSER_CAPABILITIES, CALL_NAME, DOOR_CAPABILITIES
from remit.contracts.browser.token_rules import unchecked_constraints
from remit.contracts.domain_patterns import WILDCARD, normal_host, require_pattern
from remit.core.errors import Reason, Refused

_NUMBER: Final = re.compile(r"[0-9]{1,13}(?:\.[0-9]{1,6})?")
_CALL: Final = re.compile(rf"call\.{CALL_NAME}")
_OPTIONS: Final = {
    "domains": "--domain",
    "max_purchase": "--max-purchase",
    "max_actions": "--max-actions",
    "user": "--user",
    "tenant": "--tenant",
}
_CODE: Final = re.compile(r"[A-Z]{3}")
_OTHER_NAMES: Final = {
    "€": "EUR", "euro": "EUR", "euros": "EUR", "$": "USD", "us$": "USD", "dollar": "USD", "dollars": "USD",
    "£": "GBP", "pound": "GBP", "pounds": "GBP", "¥": "JPY", "yen": "JPY",
}  # fmt: skip


def read_domains(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    for text in given:
        try:
            require_pattern(text)
        except ValueError as problem:
            raise _no_domain(text, str(problem)) from None
    return given


def read_limit(
    _context: click.Context, _parameter: click.Parameter, given: tuple[str, str] | None
) -> dict[str, Any] | None:
    if given is None:
        return None
    number, currency = given
    if _NUMBER.fullmatch(number) and _CODE.fullmatch(currency):
        return {"value": float(number), "currency": currency}
    raise _no_limit(number, currency)


def read_capabilities(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """An action's name alone is the browser's."""
    whole = tuple(f"browser.{name}" if f"browser.{name}" in BROWSER_CAPABILITIES else name for name in given)
    for name in whole:
        if name not in {*BROWSER_CAPABILITIES, *DOOR_CAPABILITIES} and not _CALL.fullmatch(name):
            known = ", ".join((*(each.removeprefix("browser.") for each in BROWSER_CAPABILITIES), *DOOR_CAPABILITIES))
            raise Refused(
                Reason.MALFORMED,
                "there is no such capability",
                where=f"--cap {name}",
                next_step=f"There are: {known}; and call.NAME for a governed function.",
            )
    return whole


def complete_capability(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    names = [*(each.removeprefix("browser.") for each in BROWSER_CAPABILITIES), *DOOR_CAPABILITIES]
    return [name for name in names if name.startswith(incomplete)]


def require_checked(caps: Collection[str], given: Collection[str]) -> None:
    """Refuse a limit that nothing would check, in the words of the options."""
    for problem in unchecked_constraints(caps, given):
        option = _OPTIONS[problem.constraint]
        raise Refused(
            Reason.MALFORMED,
            _in_options(problem.why, problem.constraint),
            where=option,
            next_step=_in_options(problem.next_step, problem.constraint),
        )


def _in_options(text: str, constraint: str) -> str:
    """With the option in the place of the constraint, and capabilities as `--cap` takes them."""
    named = re.sub(rf"\b{constraint}\b", _OPTIONS[constraint], text)
    return re.sub(r"\bbrowser\.", "", named).replace("such a capability", "such a capability (--cap)")


def require_sense(caps: Collection[str], limit: dict[str, Any] | None, user: str | None) -> None:
    """What could never be used is said now, and not at the first try."""
    if "goal.ask" in caps and user is None:
        raise Refused(
            Reason.MALFORMED,
            "a token that lets its agent ask needs a user for whom: without one it can ask nothing",
            where="--cap goal.ask",
            next_step="Say for whom, such as: --user ana; and --tenant acme where there are several",
        )
    if "browser.purchase" in caps and limit is None:
        raise Refused(
            Reason.MALFORMED,
            "a token that allows purchases needs a limit for them: without one it allows none",
            where="--cap purchase",
            next_step="Say how much one purchase may cost, such as: --max-purchase 50 EUR",
        )


def _no_domain(text: str, why: str) -> Refused:
    host = _host_meant(text)
    if not host:
        advice = "Write a host, such as shop.example, or *.shop.example for the names one label below it."
        return Refused(Reason.MALFORMED, why, where=f"--domain {text}", next_step=advice)
    what = "a domain is a host name alone: no scheme, no port, no path, and ASCII"
    also = " (Ports are allowed in remit.yaml: browser.ports.)" if re.search(r":\d+(/|$)", text) else ""
    return Refused(Reason.MALFORMED, what, where=f"--domain {text}", next_step=f"Write: --domain {host}{also}")


def _host_meant(text: str) -> str:
    """The host in an address that somebody pasted, or in another script; empty if that is no way to read it."""
    try:
        found = urlsplit(text if "://" in text else f"//{text}").hostname or ""
        star = WILDCARD if found.startswith(WILDCARD) else ""
        host = normal_host(found.removeprefix(WILDCARD).encode("idna").decode("ascii"))
        require_pattern(star + host)
    except (ValueError, UnicodeError):
        return ""
    return "" if star + host == text else star + host


def _no_limit(number: str, currency: str) -> Refused:
    if currency.replace(".", "").isdigit():  # the other way round
        number, currency = currency, number
    code = currency.upper() if re.fullmatch(r"[A-Za-z]{3}", currency) else _OTHER_NAMES.get(currency.lower(), "EUR")
    if not _NUMBER.fullmatch(number):
        what = "an amount is a number, with a point before the decimals and nothing between the thousands"
        plain = number.replace(",", ".") if re.fullmatch(r"\d+,\d{1,2}", number) else "49.90"
        number = plain
    elif currency.startswith("-"):
        what = "the currency is missing: an amount is a number and a currency"
    elif _CODE.fullmatch(currency):
        what = "the number comes first, then the currency"
    else:
        what = "a currency is its code of three capital letters (ISO 4217)"
    return Refused(Reason.MALFORMED, what, where="--max-purchase", next_step=f"Such as: --max-purchase {number} {code}")
