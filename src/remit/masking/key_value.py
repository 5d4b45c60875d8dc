"""Values beside the name of a secret: in query strings, JSON, YAML, environments, command lines, headers and XML.

The name decides whether there is a secret, and the text around it decides where the secret ends. In doubt, the mask
hides more. Limits: a value on another line than its name, and a short option such as `-p`, are not found.
"""

import re
from functools import partial
from typing import NamedTuple

from remit.masking.field_names import Kind, counts_tokens, kind_of_name
from remit.masking.masks import Hide, named_mask
from remit.masking.prose import is_prose, kind_of_phrase
from remit.masking.regex_cache import QUOTE, pattern, without_punctuation

_NAME = r"\w.$\[\]-"
_PAIR = (
    rf"(?<![{_NAME}])(?P<name>[{_NAME}]++)"
    rf"(?:{QUOTE}[\s,]*+{QUOTE}?+value{QUOTE}?+[ \t]*+[:=]|{QUOTE}?+(?>(?:\]|%5[Dd]){{0,2}})[ \t]*+"
    r"(?P<sign>=>|:=|={1,3}|:(?!:)|%3[AaDd]))[ \t]*+(?:\s*+(?=[\"']))?"
)
_ARGUMENT = (
    rf"(?i)(?<![\w-])(?P<name>--?[A-Za-z][\w-]*+(?=[ \t]|{QUOTE})|"
    rf"(?:(?:proxy-)?authorization|(?:set-)?cookie|x-[a-z-]{{2,40}})(?={QUOTE}))"
    rf"(?P<sign>[ \t]++|{QUOTE}\s*+,\s*+(?={QUOTE}))"
)
_ELEMENT = r"(<(?:[\w.-]++:)?([\w.-]++)(?:\s[^<>]*+)?>(?:<!\[CDATA\[)?)([^<\]]++)(?=\]\]>|</)"

_OPENING = rf"({QUOTE})"
_NEXT_NAME = rf"[\"'\\]*+[A-Za-z_$][{_NAME}]*+[\"'\\]*+[ \t]*+[=:]"
_AFTER_QUOTE = r"[\s,)}\]:;>\\&/]|\Z"
_BARE_VALUE = rf"(?>(?:[^\s&,;\"'`<]++|[&,;](?!\s|\Z|amp;|{_NEXT_NAME})|[\"'`](?!{_AFTER_QUOTE})|<(?!/|br))+)"
_ENCODED_VALUE = r"(?>(?:(?!%26|%22|%2[Cc]|%7[Dd])[^\s&\"'<>])+)"
_HEADER_VALUE = r"(?>(?:[^\s\"'`,;\\]++|\\(?![rn\"']))+)"
_LINE = r"(?>(?:[^\r\n\\]++|\\(?![rn]))*)"
# One pattern for the line up to the quote. With two steps, a line of such headers would be read to its end for each.
_LINE_UP_TO = {quote: rf"(?>(?:[^\r\n\\{quote}]++|\\(?![rn]))*)" for quote in "\"'`"}
_DIGITS = r"\d(?>(?:[ -]?\d){7,})"
_SCALAR_BLOCK = r"[|>][+-]?\d?[ \t]*+\r?\n(?>(?:[ \t]*+\n|[ \t]++\S[^\n]*+(?:\n|\Z))+)"
_PLACEHOLDER = r"(?:\$\{[A-Za-z_]\w*\}|\{\{[^{}\n]{0,100}\}\})(?=[\s\"'`&,;)\]}]|\Z)"
_HEADER_SCHEME = r"(?i)(?:bearer|basic|token|apikey|api-key|negotiate|ntlm|dpop)[ \t]+"
_LINE_START_REACH = 64


class _Span(NamedTuple):
    start: int
    end: int


def _closing(text: str, opening: str, start: int) -> int:
    """Return where the quoted value that starts here ends: at its quote, or at the end of the text.

    Quotes with more escapes belong to the value.
    """
    quote = opening[-1]
    if quote in "27;":  # %22, %27, &quot;
        end = text.find(opening, start)
        return len(text) if end < 0 else end
    depth = len(opening) - 1
    doubled = "''|" if opening == "'" else ""  # how YAML and SQL write a quote inside quotes
    for found in pattern(rf"{doubled}(?<!\\)(\\*+){quote}").finditer(text, start):
        if found[1] is None:
            continue
        escapes = len(found[1])
        if depth == 0 and escapes % 2 == 0:
            return found.end() - 1
        if depth and escapes <= depth:
            return found.start()
    return len(text)


def _bracketed(text: str, start: int) -> _Span:
    """Return the span inside of a list or object, up to its first closing bracket."""
    end = text.find("]" if text[start] == "[" else "}", start)
    return _Span(start + 1, len(text) if end < 0 else end)


def _starts_line(text: str, start: int) -> bool:
    before = text[max(0, start - _LINE_START_REACH) : start]
    if "\n" not in before and len(before) < start:
        return False
    return before.rpartition("\n")[2].strip(" \t-") in {"", "export"}


def _header_span(text: str, found: re.Match[str], kind: Kind) -> _Span:
    """Return the span of a header's value.

    It is one token after a known scheme. Otherwise it is the line, or the text up to the quote that opened the header.
    """
    start = found.end()
    scheme = pattern(_HEADER_SCHEME).match(text, start)
    token = pattern(_HEADER_VALUE).match(text, scheme.end()) if scheme and kind is Kind.AUTHORIZATION else None
    if token:
        return _Span(start, token.end())
    opened_by = text[found.start() - 1 : found.start()]
    line = pattern(_LINE_UP_TO.get(opened_by, _LINE)).match(text, start)
    return _Span(start, line.end() if line else start)


def _bare_span(text: str, found: re.Match[str], kind: Kind) -> _Span:
    """Return the span of a value without quotes."""
    start, sign = found.end(), found["sign"] or ""
    if sign == ":" and (kind is Kind.AUTHORIZATION or kind is Kind.COOKIE):
        return _header_span(text, found, kind)
    if sign == ":" and text[start - 1] in " \t" and _starts_line(text, found.start()):
        source = _LINE
    elif sign == "=" and found["name"].isupper() and _starts_line(text, found.start()):
        source = r"\S*"  # an environment: all text up to a space is the value
    else:
        source = _ENCODED_VALUE if sign.startswith("%") else _BARE_VALUE
    values = [pattern(source).match(text, start)]
    if kind is Kind.CARD or kind is Kind.SSN:
        values.append(pattern(_DIGITS).match(text, start))  # in groups, with spaces between them
    end = max(value.end() if value else start for value in values)
    return _Span(start, start + len(without_punctuation(text[start:end].rstrip())))


def _value_span(text: str, found: re.Match[str], kind: Kind) -> _Span:
    start = found.end()
    if opening := pattern(_OPENING).match(text, start):
        return _Span(opening.end(), _closing(text, opening[0], opening.end()))
    if placeholder := pattern(_PLACEHOLDER).match(text, start):
        return _Span(start, placeholder.end())
    if text.startswith(("[", "{"), start):
        return _bracketed(text, start)
    if block := pattern(_SCALAR_BLOCK).match(text, start):
        return _Span(start, start + len(block[0].rstrip()))
    return _bare_span(text, found, kind)


def _is_kept_visible(name: str, value: str) -> bool:
    """Return whether the value is not a secret: it is empty, a placeholder or a count."""
    if not value or pattern(_PLACEHOLDER).fullmatch(value):
        return True
    return counts_tokens(name) and value.isdecimal()


def _is_remark(text: str, found: re.Match[str], kind: Kind) -> bool:
    return not pattern(_OPENING).match(text, found.end()) and is_prose(text, found, kind)


def _kind_at(text: str, found: re.Match[str]) -> Kind | None:
    name, start = found["name"], found.start()
    before = text[start - 1 : start]
    if before == "\\" and name[0] in "nrt":
        name = name[1:]  # the letter belongs to an escaped line break
    kind = kind_of_name(name) or kind_of_phrase(text, found)
    if kind and before == "/" and (name == "passwd" or text[start - 2 : start] == "//"):
        return None  # the file /etc/passwd; a user of that name in a URL, whose password is masked by then
    return kind


def _mask_values(text: str, source: str, hide: Hide) -> str:
    out, done, position = [], 0, 0
    while found := pattern(source).search(text, position):
        position = found.end("name")
        kind = _kind_at(text, found)
        # A remark is recognised by its first words. With a search for its end first, a line of remarks would be read to
        # its end for each of them.
        if kind is None or _is_remark(text, found, kind):
            continue
        span = _value_span(text, found, kind)
        position = max(position, span.start)
        if _is_kept_visible(found["name"], text[span.start : span.end]):
            continue
        out += [text[done : span.start], hide(kind, text[span.start : span.end])]
        done = position = span.end
    return "".join(out) + text[done:]


def _element(found: re.Match[str], hide: Hide) -> str:
    kind = kind_of_name(found[2])
    return found[1] + hide(kind, found[3]) if kind and found[3].strip() else found[0]


def mask_pairs(text: str, hide: Hide = named_mask) -> str:
    if "=" in text or ":" in text or "value" in text or "%3" in text:
        text = _mask_values(text, _PAIR, hide)
    if "-" in text or ("uthorization" in text or "ookie" in text):
        text = _mask_values(text, _ARGUMENT, hide)
    if "</" in text:
        text = pattern(_ELEMENT).sub(partial(_element, hide=hide), text)
    return text
