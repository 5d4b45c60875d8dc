"""Writes JSON values as YAML text: plain where a reader gets the same value from it, else quoted."""

import json
import re
from typing import Any, Final

from remit.core.errors import RefusedError
from remit.effects.edits.yaml_nodes import YamlNode, compose_all, resolve

# Texts that every reader takes as they are, also in brackets and as a key.
_SAFE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_./@+-]*(?: [A-Za-z0-9_./@+-]+)*")
# Texts that a YAML 1.1 reader takes for a boolean, a number, a date or a merge.
_OLD_MEANING: Final = re.compile(
    r"(?i:y|yes|n|no|on|off|true|false|null|~)|[-+]?[0-9.][0-9_.:,eExXoObB+-]*|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*|<<|="
)
_NOT_PRINTABLE: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def write_quoted(text: str) -> str:
    """Return the text in double quotes. Every text can be written so."""
    return _NOT_PRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


def write_scalar(value: Any) -> str:
    """Return a scalar for use inside a new collection."""
    if not isinstance(value, str):
        return json.dumps(value)
    return value if _SAFE.fullmatch(value) and _is_read_back(value, value) else write_quoted(value)


def write_in_place(value: Any, old: YamlNode, *, in_flow: bool) -> str:
    """Return a scalar in the style of the scalar that it replaces."""
    if not isinstance(value, str):
        return json.dumps(value)
    if old.kind == "scalar" and old.style == "'" and not _NOT_PRINTABLE.search(value) and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    if old.kind == "scalar" and not old.style and _is_plain(value, in_flow=in_flow):
        return value
    return write_quoted(value)


def _is_plain(value: str, *, in_flow: bool) -> bool:
    if not value.isprintable() or value.startswith(("---", "...")):
        return False
    return _is_read_back(f"[{value}]" if in_flow else f"- {value}", value)


def _is_read_back(text: str, value: str) -> bool:
    """Whether the text is one plain scalar with this string as its value, alone or as the only item of a sequence."""
    if _OLD_MEANING.fullmatch(value):
        return False
    try:
        documents = compose_all(text)
    except RefusedError:
        return False
    node = documents[0].root if len(documents) == 1 else None
    if node is not None and node.kind == "sequence" and len(node.items) == 1:
        node = node.items[0]
    return node is not None and node.kind == "scalar" and not node.tag and not node.anchor and resolve(node) == value


def write_flow(value: Any) -> str:
    """Return the value in brackets, on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{write_scalar(key)}: {write_flow(content)}" for key, content in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(write_flow, value)) + "]"
    return write_scalar(value)


def write_block(value: Any, indent: int, unit: int) -> str:
    """Return the value over several lines, the first without its indent. The lines end with a line feed."""
    lead = "\n" + " " * indent
    if isinstance(value, dict) and value:
        return lead.join(
            f"{write_scalar(key)}:{_under_key(content, indent + unit, unit)}" for key, content in value.items()
        )
    if isinstance(value, list) and value:
        return lead.join(f"- {write_block(item, indent + 2, unit)}" for item in value)
    return write_flow(value)


def _under_key(value: Any, indent: int, unit: int) -> str:
    if isinstance(value, (dict, list)) and value:
        return "\n" + " " * indent + write_block(value, indent, unit)
    return " " + write_flow(value)
