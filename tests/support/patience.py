"""How long a test waits for what must come at once: no test fails because the machine is busy."""

from typing import Final

SOON: Final = 30.0
"""Seconds. What a limit has to end goes on for a minute or for good without it; a busy machine adds less than this.

How fast something is stands in `bench`. What one process computes is bounded by `time.process_time()` instead.
"""
