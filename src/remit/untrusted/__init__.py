"""Untrusted bytes to plain values, within bounds, or a refusal that says where and why."""

from remit.untrusted.bounds import Bounds
from remit.untrusted.json_text import parse_json, read_bounded

__all__ = ["Bounds", "parse_json", "read_bounded"]
