"""The editors that need the standard library only. They load no parser of a file format."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from remit.effects.edits.lines import line_delete, line_insert
from remit.effects.edits.splice import Editor
from remit.effects.edits.text import text_replace
from remit.effects.edits.whole_file import replace_content

PLAIN_EDITORS: Final[Mapping[str, Editor]] = MappingProxyType(
    {
        "text_replace": text_replace,
        "line_insert": line_insert,
        "line_delete": line_delete,
        "replace_content": replace_content,
    }
)
"""The editors, by the operation's type."""
