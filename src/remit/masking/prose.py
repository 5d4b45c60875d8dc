"""Tests that separate a secret from a sentence about secrets: "token expired", "the password field"."""

import re
from functools import partial
from typing import Final

from remit.masking.field_names import Kind, kind_of_name
from remit.masking.masks import Hide, named_mask
from remit.masking.regex_cache import pattern, vocabulary, without_punctuation

# Words that a message, a schema or a signature has after `password:` in place of a password.
_REMARK = (
    r"(?:(?:(?:has|is|was|will|does|should|must|may|cannot|can't|too|already|never) )?"
    r"(?:not [a-z]+|accepted|already|cannot|denied|empty|expected|expired|false|granted|hidden|incorrect|invalid|"
    r"malformed|masked|mismatch|mismatched|missing|must|nil|none|null|optional|redacted|refused|rejected|required|revoked|"
    r"should|true|undefined|unexpected|unknown|unset|unsupported|wrong)|too [a-z]+|"
    r"None|Null|NULL|True|False|"
    r"any|bool|boolean|bytes|int|integer|number|object|SecretStr|str|string)(?=[\s.,;:)\]}'\"|]|\Z)"
)
_NOTHING = r"(?:None|none|Null|null|NULL|nil|True|true|False|false)(?=[\s.,;:)\]}'\"|&]|\Z)"
_TWO_WORDS = r"[a-z]{2,12}[,;]? (?:[a-z]{2,12}|a)\b"
_CODE_EXPRESSION = (
    r"(?:await )?[a-z_.]{2,40}(?:\([\w ,.=\"'\[\]]{0,80}\)|\[[\"'][A-Za-z_]{1,40}[\"']\])(?=[\s,;)\]}]|\Z)"
)
_AFTER_OPTION = (
    r"--?[A-Za-z]|(?:and|are|as|can|flag|for|from|if|in|is|must|needs|on|option|or|requires|should|takes|to|was|when|"
    r"with)(?=[.,;:)]*(?:\s|\Z))"
)
_WORD_BEFORE = r"([A-Za-z]+)[ _]\Z"
_STATUS: Final = vocabulary("bad expired invalid malformed missing rejected refused revoked unknown unsupported wrong")
_OF_A_PARSER: Final = vocabulary("expected lookahead next unexpected")
_STATUS_CODE = r"(?:BAD|EXPIRED|INVALID|MISSING|REVOKED|UNKNOWN|WRONG)_[A-Z_]+"

# The second words of names with two words: "API key: ...", "card number = ...".
_SECOND_WORDS: Final = vocabulary("code header key keys no num number pan phrase")
_WORDS_BEFORE = r"(?:[A-Za-z]+ ){1,3}\Z"
_REACH = 40

_NAMED_IN_PROSE = (
    r"(?i)(?<![A-Za-z0-9])(?P<word>password|passwd|passphrase|passcode|secret|token|credential|"
    r"(?:api|access|secret|private)[ _-]?key|identified by)"
    r"(?P<link>\s{1,4}(?:(?:is|was|are)\s{1,4})?)"
    r"(?:(?P<quote>[\"'`])(?P<quoted>[^\"'`\n]{1,512})(?P=quote)|(?P<bare>[^\s\"'`<>]{6,}+))"
)
_PROSE_HINTS = ("pass", "secret", "token", "credential", "key", "identified")
_NETRC = r"(?i)(?<![A-Za-z0-9])(login\s{1,4}\S{1,256}\s{1,4}password\s{1,4})(\S++)"
_ALWAYS_QUOTED_SECRET: Final = frozenset({"password", "passwd", "passphrase", "passcode", "secret", "identified by"})
_OPAQUE = r"[A-Za-z0-9/+=_.~-]{16,}"
_LONG_SEGMENT = r"[A-Za-z0-9]{12,}+"
_AWS_SECRET_SIZE = 40
_PATH_OR_ID = r"[./~]|.*\.[a-z]{1,5}\Z|[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}\Z|[a-z0-9]+:"


def _word_before(text: str, start: int) -> str:
    found = pattern(_WORD_BEFORE).search(text[max(0, start - _REACH) : start])
    return found[1].lower() if found else ""


def is_prose(text: str, found: re.Match[str], kind: Kind) -> bool:
    """Return whether an unquoted value beside a secret's name is a remark about the secret and not the secret."""
    start, sign, name = found.end(), found["sign"] or "", found["name"]
    if name.startswith("-") and sign.isspace():
        return bool(pattern(_AFTER_OPTION).match(text, start))
    if pattern(_REMARK if sign == ":" else _NOTHING).match(text, start):
        return True
    if sign == "=" and text[start - 1] == " " and pattern(_CODE_EXPRESSION).match(text, start):
        return True
    if sign != ":":
        return False
    before = _word_before(text, found.start())
    if before in _OF_A_PARSER or pattern(_STATUS_CODE).fullmatch(name):
        return True
    two_words = pattern(_TWO_WORDS).match(text, start)
    return bool(two_words) and (kind is Kind.KEY or before in _STATUS)


def kind_of_phrase(text: str, found: re.Match[str]) -> Kind | None:
    """Return the kind of a name of several words ("API key") whose last word alone shows no kind, or None."""
    if found["name"].lower() not in _SECOND_WORDS:
        return None
    before = pattern(_WORDS_BEFORE).search(text[max(0, found.start() - _REACH) : found.start()])
    return kind_of_name(before[0] + found["name"]) if before else None


def _has_letter_and_digit(text: str) -> bool:
    return any(c.isdecimal() for c in text) and any(c.isalpha() for c in text)


def _is_opaque(token: str) -> bool:
    """Return whether the token looks random. Prose, paths, UUIDs and named digests do not."""
    if not pattern(_OPAQUE).fullmatch(token) or pattern(_PATH_OR_ID).match(token):
        return False
    mixed = not (token.islower() or token.isupper())
    segments = pattern(_LONG_SEGMENT).findall(token)
    return any(_has_letter_and_digit(segment) for segment in segments) or (len(token) == _AWS_SECRET_SIZE and mixed)


def _is_prose_secret(found: re.Match[str], token: str) -> bool:
    is_mixed = _has_letter_and_digit(token)
    if found["quote"]:
        return found["word"].lower() in _ALWAYS_QUOTED_SECRET or (is_mixed and len(token) > len("unknown"))
    if not found["link"].isspace():
        return is_mixed and not pattern(_PATH_OR_ID).match(token)
    return _is_opaque(token)


def _mask_found(found: re.Match[str], hide: Hide) -> str:
    token = found["quoted"] or without_punctuation(found["bare"])
    before = _word_before(found.string, found.start())
    if before in _OF_A_PARSER or not _is_prose_secret(found, token):
        return found[0]
    kind = kind_of_name(found["word"]) or Kind.PASSWORD
    start = found.start("quoted" if found["quote"] else "bare") - found.start()
    return found[0][:start] + hide(kind, token) + found[0][start + len(token) :]


def mask_prose_secrets(text: str, hide: Hide = named_mask) -> str:
    """Mask secrets in sentences: "the password is ...", "PASSWORD '...'", "secret access key AKI...", .netrc."""
    lowered = text.lower()
    if not any(hint in lowered for hint in _PROSE_HINTS):
        return text
    if "login" in lowered:
        text = pattern(_NETRC).sub(r"\1********", text)
    return pattern(_NAMED_IN_PROSE).sub(partial(_mask_found, hide=hide), text)
