"""Names of fields that hold secrets.

A name is split into words (camelCase, snake_case, kebab-case, dotted, bracketed, spaced), and the last words decide:
`db_password` holds a password, `password_policy` does not. Limit: a secret in a field with another name is found only
by its shape.
"""

import unicodedata
from enum import Enum
from functools import lru_cache
from typing import Final

from remit.masking.regex_cache import pattern, vocabulary


class Kind(Enum):
    PASSWORD = "password"  # noqa: S105  # masked whole
    KEY = "key"
    AUTHORIZATION = "authorization"
    COOKIE = "cookie"
    CARD = "card"
    SSN = "ssn"


_LONGEST_NAME = 80  # the last words decide, so the rest of a longer name need not be read

_WORD = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+"

# Endings of the name, with its words joined, so that PGPASSWORD and dbpassword are found as well.
_ENDINGS: Final = {
    Kind.PASSWORD: (
        "password", "passwd", "passphrase", "passcode", "pswd", "pwd", "passwordhash", "passwdhash", "userpass",
        "dbpass", "smtppass", "ftppass", "mysqlpass", "rootpass", "adminpass", "keypass", "storepass", "sshpass",
        "secret", "credential", "privatekey", "secretkeybase", "seedphrase", "recoveryphrase", "mnemonic",
        "securitycode", "verificationcode", "recoverycode", "backupcode", "onetimecode", "cardcode", "smscode",
        "mfacode", "authcode", "authorizationcode", "sessid", "jsessionid", "connectsid",
        "passwort", "kennwort", "contrasena", "motdepasse", "senha", "пароль", "密码", "密碼", "ハスワート",
    ),
    Kind.KEY: (
        "token", "apikey", "accesskey", "secretkey", "authkey", "sharedkey", "accountkey", "masterkey", "signingkey",
        "encryptionkey", "decryptionkey", "subscriptionkey", "licensekey", "hmackey", "sessionkey",
        "xamzsignature", "xgoogsignature", "xamzcredential",
    ),
    Kind.AUTHORIZATION: ("authorization", "authheader", "authorizationheader"),
    Kind.COOKIE: ("cookie",),
    Kind.CARD: (
        "cardnumber", "cardnum", "cardno", "creditcard", "debitcard", "ccnumber", "ccnum", "ccno", "cardpan",
        "primaryaccountnumber",
    ),
    Kind.SSN: ("ssn", "socialsecuritynumber", "socialsecuritynum", "socialsecurityno", "socialsecurity"),
}  # fmt: skip
_BY_ENDING: Final = {ending: kind for kind, endings in _ENDINGS.items() for ending in endings}
_LONGEST_ENDING = max(map(len, _BY_ENDING))

# Too short to search for inside a word ("bypass", "spin"): the last word must be equal to one of them.
_BY_LAST_WORD: Final = {
    "pass": Kind.PASSWORD, "pw": Kind.PASSWORD, "pin": Kind.PASSWORD, "otp": Kind.PASSWORD, "totp": Kind.PASSWORD,
    "cvv": Kind.PASSWORD, "cvc": Kind.PASSWORD, "csc": Kind.PASSWORD, "jwt": Kind.KEY, "bearer": Kind.KEY,
}  # fmt: skip

# `stripe_key` is a secret, `primary_key` and `public_key` are not: the word before `key` decides.
_KEY_OWNERS: Final = vocabulary(
    "admin anthropic api aws azure bot cohere datadog deploy gcp gemini github gitlab google groq mailgun mistral "
    "openai pagerduty root segment sendgrid sentry service slack ssh storage stripe symmetric twilio webhook wrapping"
)
_SAYS_NOTHING: Final = vocabulary(
    "again b base confirm confirmation confirmed current decrypted encoded encrypted header hex input new old param "
    "parameter pem plain plaintext raw repeat repeated retype str string text value verify"
)
_QUESTIONS: Final = vocabulary("disable enable generate has is need needs no require requires revoke show validate")
_AMOUNTS: Final = vocabulary(
    "cached completion count input max min n num number output per prompt reasoning remaining total used"
)
# Fields with these names may hold other data, such as a title. Only a value that is written like a card number is one.
_CARD_WORDS: Final = vocabulary("card cc pan")
_NUMBER_WORDS: Final = vocabulary("no nr num number")
_WORKING_DIRECTORY: Final = frozenset({"PWD", "OLDPWD"})


def _split_name(name: str) -> list[str]:
    if not name.isascii():
        spelled = unicodedata.normalize("NFKD", name)
        name = "".join(c for c in spelled if not unicodedata.combining(c))
    words = [word.casefold() for word in pattern(_WORD).findall(name)]
    while len(words) > 1 and (words[-1] in _SAYS_NOTHING or words[-1].isdecimal()):
        words.pop()
    return words


def _singular(word: str) -> str:
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


@lru_cache(maxsize=2048)
def _kind_of(name: str) -> Kind | None:
    words = _split_name(name)
    if not words or name.strip("$-") in _WORKING_DIRECTORY:
        return None
    last = _singular(words[-1])
    if words[0] in _QUESTIONS or (last == "token" and not _AMOUNTS.isdisjoint(words[:-1])):
        return None
    if last in _BY_LAST_WORD:
        return _BY_LAST_WORD[last]
    if last == "key" and len(words) > 1 and words[-2] in _KEY_OWNERS:
        return Kind.KEY
    whole = "".join(words[:-1]) + last
    # The longest ending wins: `passwordhash` before `hash`, `secretkey` before `key`.
    for length in range(min(len(whole), _LONGEST_ENDING), 1, -1):
        if kind := _BY_ENDING.get(whole[-length:]):
            return kind
    return None


def kind_of_name(name: str) -> Kind | None:
    """Return the kind of secret in a field of this name, or None."""
    return Kind.AUTHORIZATION if name == "_auth" else _kind_of(name[-_LONGEST_NAME:])


def is_card_name(name: str) -> bool:
    """Return whether digits in a field of this name are a card number, even if their check digit is wrong."""
    words = _split_name(name[-_LONGEST_NAME:])
    last = words[-2:-1] if words and words[-1] in _NUMBER_WORDS else words[-1:]
    return bool(last) and _singular(last[0]) in _CARD_WORDS


def counts_tokens(name: str) -> bool:
    """Return whether the name ends in `tokens`. With a number, it is a count of a model's tokens and stays visible."""
    return name[-_LONGEST_NAME:].casefold().endswith("tokens")


def is_secret_name(name: str) -> bool:
    """Return whether a field of this name is masked with any value."""
    return kind_of_name(name) is not None
