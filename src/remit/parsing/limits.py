"""The bounds on untrusted data that Remit parses."""

from typing import NamedTuple


class Bounds(NamedTuple):
    """Bounds, checked before or during parsing, so that no input costs more than a multiple of `max_bytes`."""

    max_bytes: int = 1 << 20
    max_depth: int = 32
    max_items: int = 100_000
    """Array elements plus object members, over the whole document."""
    max_members: int = 5_000
    """Members of one object. For each unknown member, the model's validator makes an error of some 900 bytes."""
    max_number_digits: int = 40
