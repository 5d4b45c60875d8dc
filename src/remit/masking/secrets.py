"""A search for credentials in a text. It uses the same shapes and names as the masks, and needs more certainty.

A mask that hides too much hides a word, but a finding stops a plan until a person has checked it. So a value beside a
secret's name is reported only if it is written in quotes or looks random.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from remit.masking.credentials import mask_shapes
from remit.masking.field_names import Kind, kind_of_name
from remit.masking.regex_cache import pattern
from remit.masking.urls import mask_passwords_in_addresses


class Secret(NamedTuple):
    start: int
    end: int
    what: str


_NAMED: Final = frozenset({Kind.PASSWORD, Kind.KEY, Kind.AUTHORIZATION})

_PRIVATE_KEY = r"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
# The length is bounded, because the beginning of a value is enough, and no line may be read to its end repeatedly.
_PAIR = (
    r"(?m)(?<![\w.$-])(?P<name>[A-Za-z_$][\w.$-]*+)\\?[\"']?\]?[ \t]*+(?:=>|:=|=(?!=)|:(?![:=]))[ \t]*+"
    r"(?:[rbufRBUF]{0,2}\\?[\"'`](?P<quoted>[^\"'`\n\\]{5,2000}+)|"
    r"(?P<bare>[^\s\"'`(){}\[\]<>,;#]{5,200}+)(?=[ \t]*+(?:[#,;]|\r?$)))"
)

# In lower case. A line without any of them cannot match and is skipped, which is much faster.
_PAIR_HINTS: Final = (
    "pass", "pwd", "pswd", "secret", "token", "key", "credential", "authorization", "authheader", "jwt", "bearer",
    "mnemonic", "phrase", "senha", "contrase", "kennwort", "pw", "pin", "otp", "cvv", "cvc", "csc", "code", "sessid",
    "connectsid",
)  # fmt: skip
_ADDRESS_HINTS: Final = ("@", "%40", "-u", "sig=", "code=", "auth=")
SHAPE_HINTS: Final = (
    "sk_", "pk_", "rk_", "sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "glrt-", "gldt-",
    "glcbt-", "xox", "xapp-", "aiza", "ya29.", "akia", "asia", "hf_", "npm_", "gsk_", "rnd_", "whsec_", "figd_", "_v1_",
    "shpat_", "shpca_", "shppa_", "shpss_", "pypi-", "xai-", "nvapi-", "sg.", "hvs.", "hvb.", "age-secret-key-1", "eyj",
    "eya", "ewo", "bearer", "basic",
)  # fmt: skip
_JWK: Final = '"kty'
_JWK_HINTS: Final = ('"d', '"p', '"q', '"k')
_PLACEHOLDER = (
    r"(?i)\$\{.*|\$\(.*|\$[A-Z_]\w*|\{\{.*|\{\w*\}|%\(?\w+\)?[sd%]?|<.*>?|\[.*|x{3,}.*|\*{3,}.*|\.{3,}.*|"
    r"(?:.*[^a-z])?(?:change[-_ ]?me|example|placeholder|redacted|dummy|insert|replace[-_ ]?me|todo|your)(?:[^a-z].*)?|"
    r"(?:required|optional|disabled|enabled|undefined|password|username|passphrase|authorization)"
)
_METHOD = r"(?i)(?:md|sha|hs|rs|es|utf|crc)-?\d+|(?:argon2(?:id?)?|base64|pbkdf2|int\d+|v\d[\w.]*)"
_SHORTEST: Final = 5
"""The length from which a password is recognised by its letters and digits."""
_PROSE = r"\S+ \S+ \S+.*"
_ATTRIBUTE = r"[A-Za-z_$][\w$]*(?:(?:\.|->|::)[A-Za-z_$][\w$]*)+"


def find_secrets(text: str) -> list[Secret]:
    """Return all texts that look like a credential, in order. The time is linear in the text's length.

    Limit: as with the masks, a credential that is encrypted, encoded or spelled out is not found.
    """
    lowered = text.lower()
    if len(lowered) != len(text):  # a few letters become two in lower case, which would shift the positions
        lowered = "".join(c.lower() if len(c.lower()) == 1 else c for c in text)
    addresses = _finder_by_mask(mask_passwords_in_addresses, "a password in an address")
    shapes = _finder_by_mask(mask_shapes, "a key or token of a known shape")
    found = _private_keys(text)
    for find, hints in ((addresses, _ADDRESS_HINTS), (shapes, SHAPE_HINTS), (_by_name, _PAIR_HINTS)):
        for start, line in _lines_with(text, lowered, hints):
            found += find(start, line)
    if _JWK in text:
        for start, line in _lines_with(text, lowered, _JWK_HINTS):
            found += _jwk_member(start, line)
    return sorted(found)


def prepare() -> None:
    """Compile all patterns, for a process whose forked children must not compile them again."""
    find_secrets(
        '-----BEGIN PRIVATE KEY-----\napi_key = "ghp_0123456789abcdefghij"\nhttps://a:b@c/ -u a:b AKIA bearer x'
    )


def _lines_with(text: str, lowered: str, hints: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    starts = set()
    for hint in hints:
        place = lowered.find(hint)
        while place >= 0:
            starts.add(text.rfind("\n", 0, place) + 1)
            end = text.find("\n", place)
            place = lowered.find(hint, end) if end >= 0 else -1
    for start in sorted(starts):
        end = text.find("\n", start)
        yield start, text[start : end if end >= 0 else len(text)]


def _private_keys(text: str) -> list[Secret]:
    if "PRIVATE KEY" not in text:
        return []
    return [Secret(*found.span(), "a private key") for found in pattern(_PRIVATE_KEY).finditer(text)]


def _finder_by_mask(mask: Callable[[str], str], what: str) -> Callable[[int, str], list[Secret]]:
    """Return a function that finds what a mask would hide, so that both use one list of patterns."""

    def find(start: int, line: str) -> list[Secret]:
        masked = mask(line)
        return [] if masked == line else [Secret(*_changed_span(line, masked, start), what)]

    return find


def _jwk_member(start: int, line: str) -> list[Secret]:
    """Find a private member of a key in JSON, of which other lines show that it is a key."""
    lead = _JWK + "\n"
    masked = mask_shapes(lead + line)
    return [] if masked == lead + line else [Secret(start, start + len(line), "a private key")]


def _changed_span(line: str, masked: str, place: int) -> tuple[int, int]:
    """Return the span of a line that a mask has changed."""
    start = next((at for at, (one, other) in enumerate(zip(line, masked, strict=False)) if one != other), 0)
    unchanged = next(
        (at for at, (one, other) in enumerate(zip(line[::-1], masked[::-1], strict=False)) if one != other), 0
    )
    return place + start, place + max(start + 1, len(line) - unchanged)


def _by_name(start: int, line: str) -> list[Secret]:
    return [
        Secret(start + pair.start(), start + pair.end(), f"a value for {pair['name'][:80]}")
        for pair in pattern(_PAIR).finditer(line)
        if (kind := kind_of_name(pair["name"])) in _NAMED and _is_secret(kind, pair["quoted"], pair["bare"])
    ]


def _is_secret(kind: Kind | None, quoted: str | None, bare: str | None) -> bool:
    value = (quoted or bare or "").strip()
    is_short = len(value) < 8
    if is_short and (kind is not Kind.PASSWORD or len(value) < _SHORTEST):
        return False
    if any(pattern(each).fullmatch(value) for each in (_PLACEHOLDER, _PROSE, _METHOD)):
        return False
    if quoted is not None and not is_short:
        return True
    is_mixed = any(c.isdecimal() for c in value) and any(c.isalpha() for c in value)
    return is_mixed and not pattern(_ATTRIBUTE).fullmatch(value)
