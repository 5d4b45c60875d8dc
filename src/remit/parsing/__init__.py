"""Untrusted bytes to plain values, within bounds, or a refusal that says where and why."""

from remit.parsing.json import parse_json, read_bounded
from remit.parsing.limits import Bounds

__all__ = ["Bounds", "parse_json", "read_bounded"]
