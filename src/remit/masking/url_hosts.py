"""Masking that never changes the host of a URL, because an approver must see where a request goes.

A host may look like a card number or a key, be beside a secret's name, or look like the user of an e-mail address. It
is never a secret, and an approver who does not see it could approve a request to another host.
"""

from itertools import chain
from typing import Final

from remit.masking.regex_cache import pattern
from remit.masking.text import Mask
from remit.masking.urls import mask_and_split_hosts

_SCHEME_END: Final = "://"
_ESCAPED_SCHEME_END: Final = r":\/\/"
_PLACEHOLDER: Final = "host[a-j]++\\.zz[\ue000-\uf8ff\U000f0000-\U0010ffff]"
_DIGITS: Final = str.maketrans("0123456789", "abcdefghij")
_PRIVATE_USE: Final = (range(0xE000, 0xF900), range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE))


def mask_around_hosts(text: str, mask: Mask) -> str:
    """Apply `mask` to a text, mask the userinfo of its URLs, and leave their hosts unchanged.

    A host is hidden only if it is part of a value that is hidden whole: `password=https://example.com`.
    """
    if _SCHEME_END not in text and _ESCAPED_SCHEME_END not in text:
        return mask(text)
    around, hosts = mask_and_split_hosts(text)
    end = _unused_character(text)
    placeholders = [f"host{str(number).translate(_DIGITS)}.zz{end}" for number in range(len(hosts))]
    masked = mask("".join(part for pair in zip(around, [*placeholders, ""], strict=True) for part in pair))
    host_of = dict(zip(placeholders, hosts, strict=True))
    return pattern(_PLACEHOLDER).sub(lambda found: host_of.get(found[0], found[0]), masked)


def is_after_scheme(value: str) -> bool:
    """Return whether the value is `//...` with a host. The name before its colon is then a scheme and not a field."""
    return value.startswith("//") and pattern(_PLACEHOLDER).search(value) is not None


def _unused_character(text: str) -> str:
    """Return a character that is not in the text.

    It ends a name, an e-mail address and a word, but not a value without quotes.
    """
    letters = set(text)
    return next((c for c in map(chr, chain(*_PRIVATE_USE)) if c not in letters), "\ue000")
