"""A key of the identity provider is used for what its document says that it is for."""

import json
from typing import Any, Final

import jwt
import pytest

from remit.web.login.id_token import read_keys
from tests.identity.forging import rsa_key

USED: Final[list[tuple[dict[str, Any], bool]]] = [
    ({}, True),
    ({"use": "sig"}, True),
    ({"use": "enc"}, False),
    ({"key_ops": ["verify"]}, True),
    ({"key_ops": ["sign", "verify"]}, True),
    ({"key_ops": ["encrypt", "wrapKey"]}, False),
    ({"key_ops": ["sign"]}, False),
    ({"key_ops": []}, False),
    ({"key_ops": "verify"}, False),
    ({"key_ops": None}, False),
    ({"use": "enc", "key_ops": ["verify"]}, False),
]


def test_a_key_that_is_not_for_verifying_is_passed_over(subtests: pytest.Subtests) -> None:
    for said, is_used in USED:
        with subtests.test(said=said, is_used=is_used):
            public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(rsa_key("k1").public_key()))
            public.pop("key_ops", None)
            assert bool(read_keys({"keys": [{**public, "kid": "k1", **said}]})) is is_used
