"""Whole files are searched for credentials. What cannot be searched counts as found."""

import pytest

from remit.effects.plans.credential_search import MAX_FILE, is_free_of_credentials

pytestmark = pytest.mark.req("PV-04")


def test_plain_text_is_free_of_credentials() -> None:
    for content in (b"", b"one\ntwo\n", "caf\u00e9\n".encode(), b"x" * MAX_FILE):
        assert is_free_of_credentials(content)


@pytest.mark.parametrize(
    "content",
    [
        b"intro\npassword = 'hunter2-and-more'\n",
        b"x\n" * 10_000 + b"ghp_0123456789abcdefghijklmnopqrstuvwxyz\n",
        b"-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----\n",
        b"postgres://ada:secret-word@db/app\n",
    ],
)
def test_a_credential_anywhere_is_found(content: bytes) -> None:
    assert not is_free_of_credentials(content)


@pytest.mark.parametrize("content", [b"a\0b", b"\xff\xfe", "text".encode("utf-16"), b"x" * (MAX_FILE + 1)])
def test_what_cannot_be_searched_counts_as_found(content: bytes) -> None:
    assert not is_free_of_credentials(content)
