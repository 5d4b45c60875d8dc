"""Secrets that have a known shape: private key blocks, API keys of well-known issuers, JWTs, bearer credentials."""

import binascii
import re
from collections.abc import Callable

from remit.masking.masks import MASK, PUBLIC_PREFIX, key_mask, shape_mask
from remit.masking.regex_cache import EDGE, RUN_EDGE, pattern

PEM_BEGIN = r"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
PEM_END = r"-----END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"

_KEY = EDGE + "(?:" + "|".join((
    r"(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9_]{6,}+",
    r"(?:sk|rk)_[A-Za-z0-9]{16,}+",
    r"pk_(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{16,}+",  # pk_customeraccounts is a constraint of a database
    r"sk-(?:ant|proj|or|svcacct|admin|live|test|lf|None)-[A-Za-z0-9_-]{12,}+",
    r"sk-[A-Za-z0-9]{20}[A-Za-z0-9_-]*+",
    r"gh[pousr]_[A-Za-z0-9]{16,}+", r"github_pat_[A-Za-z0-9_]{16,}+", r"gl(?:pat|rt|dt|cbt)-[A-Za-z0-9_-]{16,}+",
    r"xox[a-z]-[A-Za-z0-9-]{10,}+", r"xapp-[A-Za-z0-9-]{10,}+",
    r"AIza[A-Za-z0-9_-]{30,}+", r"ya29\.[A-Za-z0-9_-]{20,}+",
    r"A(?:KI|SI)A[A-Z0-9]{16,}+",
    r"(?:hf|npm|gsk|rnd|whsec|figd)_[A-Za-z0-9_]{24,}+", r"(?:dop|doo)_v1_[a-f0-9]{32,}+",
    r"shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{24,}+", r"pypi-[A-Za-z0-9_-]{32,}+", r"(?:xai|nvapi)-[A-Za-z0-9_-]{32,}+",
    r"SG\.[A-Za-z0-9_-]{16,}+\.[A-Za-z0-9_-]{16,}+", r"hv[sb]\.[A-Za-z0-9_-]{20,}+",
    r"AGE-SECRET-KEY-1[A-Z0-9]{20,}+",
    RUN_EDGE + r"e(?:yJ|yA|wo)[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+){0,3}",
)) + ")"  # fmt: skip
KEY_HINTS = (
    "k_", "sk-", "gh", "gith", "gl", "xo", "xapp-", "AIza", "ya29.", "KIA", "SIA", "hf_", "npm_", "rnd_", "sec_",
    "figd_", "do", "shp", "pypi-", "xai-", "nvapi-", "SG.", "hv", "AGE-", "eyJ", "eyA", "ewo",
)  # fmt: skip

# The secret of an access key has no shape except its length. It is found by the access key id before it.
_AWS_PAIR = (
    r"(?<![A-Za-z0-9])(A(?:KI|SI)A(?:[A-Z0-9]{16,}+|\.\.\.[A-Z0-9]{4})"
    r"[\s:,;/|\"'=]{1,8})([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])"
)

_PRIVATE_JWK_MEMBER = r"(\"(?:d|p|q|dp|dq|qi|k)\\*+\"\s{0,8}:\s{0,8}\\*+\")([A-Za-z0-9_-]{16,}+)"

_BEARER = r"(?i)(?<![A-Za-z0-9])(bearer(?:\s{1,4}|%20|\+))([A-Za-z0-9._~+/-]{8,}+=*+)"
_BASIC = r"(?i)(?<![A-Za-z0-9])(basic\s{1,4})([A-Za-z0-9+/]{8,}+={0,2}+)"


def mask_private_keys(text: str, hide: Callable[[str], str] = lambda _: MASK) -> str:
    """Hide the body of each PEM private key block. In a block without an end, the rest of the text is hidden."""
    if "PRIVATE KEY" not in text:
        return text
    out, done = [], 0
    while begin := pattern(PEM_BEGIN).search(text, done):
        end = pattern(PEM_END).search(text, begin.end())
        last = end.start() if end else len(text)
        out += [text[done : begin.end()], hide(text[begin.end() : last])]
        done = last
    return "".join(out) + text[done:]


def _is_random(token: str) -> bool:
    """Return whether this is a random token and not a word of a sentence ("bearer authentication")."""
    return len(token) >= 20 or any(c.isdecimal() for c in token) or not (token.islower() or token.istitle())


def _bearer(found: re.Match[str]) -> str:
    token = found[2]
    if not _is_random(token) or token.isupper():
        return found[0]
    return found[1] + (key_mask(token) if pattern(PUBLIC_PREFIX).match(token) else MASK)


def _basic(found: re.Match[str]) -> str:
    try:
        decoded = binascii.a2b_base64(found[2] + "==")
    except binascii.Error:
        return found[0]
    return found[1] + MASK if b":" in decoded else found[0]


def mask_jwks(text: str) -> str:
    """Mask the private members of keys in JSON. The line that shows that it is a key may be another one."""
    return pattern(_PRIVATE_JWK_MEMBER).sub(rf"\1{MASK}", text) if '"kty' in text else text


def mask_shapes(text: str) -> str:
    lowered = text.lower()
    if "bearer" in lowered:
        text = pattern(_BEARER).sub(_bearer, text)
    if "basic" in lowered:
        text = pattern(_BASIC).sub(_basic, text)
    text = mask_jwks(text)
    if "KIA" in text or "SIA" in text:
        text = pattern(_AWS_PAIR).sub(rf"\1{MASK}", text)
    if any(hint in text for hint in KEY_HINTS):
        text = pattern(_KEY).sub(lambda found: shape_mask(found[0]), text)
    return text
