"""The comparison of the prices in a held request with the declared amount and the token's limit. Pure.

A token's `max_purchase` limits every request that names a price, in every kind of action. Otherwise a purchase that is
proposed as a click would have no limit except the approver's attention.
"""

from typing import Final

from remit.browser.amounts import FoundPrice, find_above, judge_amounts
from remit.browser.model.masking import cut
from remit.browser.policy import limit_exceeded_error, render_money
from remit.contracts.browser.browser import Amount

_LONGEST_NAME: Final = 60


def require_price(
    declared: Amount | None, limit: Amount | None, in_request: tuple[FoundPrice, ...], on_page: tuple[FoundPrice, ...]
) -> None:
    if declared is not None:
        bounds = f"the agent declared {render_money(declared)}"
        bounds += f", and the token allows {render_money(limit)}" if limit is not None else ""
        for found, source in ((in_request, "request"), (on_page, "page")):
            too_much = judge_amounts(declared, found).too_much
            if too_much is not None:
                raise limit_exceeded_error(f"{_describe_price(too_much, source)}; {bounds}. It was not sent.")
    elif limit is not None and (too_much := find_above(limit, in_request)) is not None:
        raise limit_exceeded_error(
            f"{_describe_price(too_much, 'request')}; the token allows {render_money(limit)}. It was not sent. If this"
            " is a purchase, use a purchase action with its amount."
        )


def _describe_price(found: FoundPrice, source: str) -> str:
    where = f"in the field `{cut(found.where, _LONGEST_NAME)}` of the request" if source == "request" else "in the form"
    if found.value is None:
        return f"something that cannot be read as an amount {where}"
    return f"{found.value:f} {found.currency or ('cents ' if found.minor else '')}".rstrip() + f" {where}"
