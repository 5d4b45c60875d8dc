"""An encoded order: the frame that the host sends to a child, and the times that the host keeps."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from remit.core.errors import Reason, RefusedError
from remit.sandbox.framing import FramingError, encode_frame
from remit.sandbox.orders import Order
from remit.sandbox.session import OrderTimes

_THE_HOSTS: Final = frozenset({"seconds", "paces"})
"""The fields of an order that the child does not receive."""


class EncodedOrder(NamedTuple):
    """The frame and descriptors that a child receives, and the times that the host keeps."""

    frame: bytes
    descriptors: tuple[int, ...]
    times: OrderTimes


def encode_order(order: Order, given: Sequence[str]) -> bytes:
    fields: dict[str, Any] = {
        name: getattr(order, name) for name in Order.__dataclass_fields__ if name not in _THE_HOSTS
    }
    try:
        return encode_frame({**fields, "given": given})
    except FramingError as problem:
        raise RefusedError(Reason.TOO_LARGE, f"the task is too large: {problem}", where=order.task_id) from None
