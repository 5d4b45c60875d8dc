"""How much of somebody else's data we are willing to look at."""

from typing import NamedTuple


class Bounds(NamedTuple):
    """Checked before or while reading, so that no input costs more than a multiple of `max_bytes`."""

    max_bytes: int = 1 << 20
    max_depth: int = 32
    max_items: int = 100_000
    """Array elements plus object members, over the whole document."""
    max_members: int = 5_000
    """Members of one object: each unknown one costs the model's validator an error of some 900 bytes."""
    max_number_digits: int = 40
