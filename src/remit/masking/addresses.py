"""Secrets in addresses: passwords in URLs and data source names, and e-mail addresses."""

import re
from itertools import zip_longest

from remit.masking.patterns import pattern
from remit.masking.table import MASK

_SCHEME_END = r"://|:\\/\\/"
_ADDRESS = r"[^\s\"'`<>]*+"
_ENCODED_USER = (
    r"(?i)(%3A%2F%2F(?>(?:(?!%3A|%40|%2F)[^\s&\"'])*)%3A)((?>(?:(?!%40|%2F)[^\s&\"'])+))(?=%40)"  # a URL inside a query
)
_DSN_HOST = r"@(?:tcp|unix)\("
_LONGEST_DSN_USER = 512
_CURL_USER = r"((?<!\S)(?:-u|--user|--proxy-user)[ \t=]{1,4}[\"']?[^\s:\"']{1,256}:)([^\s\"']++)"
_QUERY_SECRET = r"([?&;](?:sig|code|auth)=)([^&\s\"'`<>#]{16,})"  # noqa: S105 - a pattern, not a secret
_PORT = r"\d{1,5}(?:[/?#]|\Z)"
_LONG_USER = 16  # a user of this length with a digit in it is a token that stands in for one

_LOCAL = r"\w.+*~!#$^-"
AT = r"(?:@|\uff20|%40|\\u0040|&\#64;)"
_ENCODED = r"%(?!40)[0-9A-Fa-f]{2}|\\++u(?!0040)[0-9A-Fa-f]{4}"
_DOMAIN = rf"(?:[\w-]|{_ENCODED})(?:[\w.-]|{_ENCODED})*?\.[^\W\d_]{{2}}[\w.-]*+"
# Atomic groups, not possessive ones: until 3.11.5 Python kept what a failed last round of a possessive group had eaten.
_MAILBOX = rf"\"[^\"\n]{{1,64}}\"|(?>(?:[{_LOCAL}]++|%(?!40))+)"
_EMAIL = rf"(?:(?<![%{_LOCAL}])|(?<=%40)|(?<=\\u0040))({_MAILBOX})(?={AT}({_DOMAIN}))"
# A release (`package@1.2.3-rc.x`), a unit of systemd (`getty@tty1.service`), an image for dense screens (`a@2x.png`).
_NOT_A_MAILBOX = r"v?\d+\.\d+\.|(?:\w+\.(?:service|socket|timer|target|mount|slice|scope)|[1-4]x\.[a-z]{3,4})\Z"


def _mask_userinfo(userinfo: str) -> str:
    user, colon, password = userinfo.partition(":")
    if len(user) >= _LONG_USER and any(c.isdecimal() for c in user):
        user = MASK
    return user + colon + (password and MASK)


def _mask_authority(address: str) -> str:
    """The userinfo of what follows `scheme://`. Beside a password, an `@` in the path may be a part of it."""
    authority = pattern(r"[^/?#]*+").match(address)
    size = authority.end() if authority else 0
    at = address.rfind("@", 0, size)
    colon = address.find(":", 0, size)
    if 0 <= colon < at:
        at = max(at, address.partition("?")[0].rfind("@"))
    elif colon == 0 or (colon > 0 and not pattern(_PORT).match(address, colon + 1)):
        at = address.rfind("@")
    return address if at < 0 else _mask_userinfo(address[:at]) + address[at:]


def _mask_urls(text: str) -> str:
    out, done = [], 0
    ends = list(pattern(_SCHEME_END).finditer(text))
    for found, following in zip_longest(ends, ends[1:]):
        start, stop = found.end(), following.start() if following else len(text)
        if address := pattern(_ADDRESS).match(text, start, stop):
            out += [text[done:start], _mask_authority(address[0])]
            done = address.end()
    return "".join(out) + text[done:]


def _mask_data_sources(text: str) -> str:
    """`user:password@tcp(host)/db`, read backwards from its host."""
    out, done = [], 0
    for host in pattern(_DSN_HOST).finditer(text):
        before = text[max(done, host.start() - _LONGEST_DSN_USER) : host.start()]
        password = pattern(r"[\s\"'`]").split(before)[-1].partition(":")[2]
        if password:
            out += [text[done : host.start() - len(password)], MASK]
            done = host.start()
    return "".join(out) + text[done:]


def mask_passwords_in_addresses(text: str) -> str:
    if "@" in text and ":" in text:
        text = _mask_urls(text)
    if "%40" in text:
        text = pattern(_ENCODED_USER).sub(rf"\1{MASK}", text)
    if "@tcp(" in text or "@unix(" in text:
        text = _mask_data_sources(text)
    if "-u" in text:
        text = pattern(_CURL_USER).sub(rf"\1{MASK}", text)
    if "=" in text:
        text = pattern(_QUERY_SECRET).sub(rf"\1{MASK}", text)
    return text


def _email(found: re.Match[str]) -> str:
    local, quote = found[1].strip('"'), '"' if found[1].startswith('"') else ""
    stars = local[: len(local) - len(local.lstrip("*"))]  # emphasis, or a password that is masked already
    if stars == local or pattern(_NOT_A_MAILBOX).match(found[2]):
        return found[0]
    return f"{quote}{stars}{local[len(stars)]}***{quote}"


def mask_emails(text: str) -> str:
    if not pattern(AT).search(text):
        return text
    return pattern(_EMAIL).sub(_email, text)
