"""Parsers that turn untrusted bytes into plain values, within bounds, or refuse and say where and why."""

from remit.parsing.json import parse_json, read_bounded
from remit.parsing.limits import Bounds

__all__ = ["Bounds", "parse_json", "read_bounded"]
