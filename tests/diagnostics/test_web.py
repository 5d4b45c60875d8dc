"""The web server that remit.yaml describes: told before anybody starts it."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

from remit.diagnostics.check import Check
from tests.diagnostics.sound_workspace import SoundWorkspace

CheckConfig = Callable[..., dict[str, Check]]


@pytest.fixture
def check_config(sound_workspace: SoundWorkspace) -> CheckConfig:
    def with_web(**web: Any) -> dict[str, Check]:
        (sound_workspace.root / "remit.yaml").write_text(json.dumps({"version": 1, "web": web}))
        return {name: check for name, check in sound_workspace.run_checks().items() if name.startswith("web")}

    return with_web


def certificate(sound_workspace: SoundWorkspace, days: float) -> str:
    """Valid for so many days from now."""
    key, name = Ed25519PrivateKey.generate(), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "remit.example")])
    begin = datetime.now(UTC) - timedelta(days=30)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(datetime.now(UTC) + timedelta(days=days))
        .sign(key, None)
    )
    path = sound_workspace.root / f"{days}.pem"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return str(path)


def test_the_address_the_certificate_and_the_files_of_secrets_are_looked_at(
    check_config: CheckConfig, sound_workspace: SoundWorkspace
) -> None:
    assert check_config() == {}, "the default needs nothing"
    assert check_config(port=9000)["web address"].status == "ok"
    assert check_config(host="192.0.2.7")["web address"].status == "fail"
    assert check_config(host="192.0.2.7", insecure_http=True)["web address"].status == "warn"
    key = sound_workspace.root / "key.pem"
    key.write_text("a key")
    key.chmod(0o600)
    for days, status in ((300, "ok"), (3, "warn"), (-1, "fail")):
        found = check_config(host="192.0.2.7", tls={"certificate": certificate(sound_workspace, days), "key": str(key)})
        assert {name: check.status for name, check in found.items()} == {
            "web address": "ok",
            "web certificate": status,
            "web.tls.key": "ok",
        }
    key.chmod(0o644)
    found = check_config(
        tls={"certificate": str(key), "key": str(key)}, metrics={"secret_file": str(sound_workspace.root / "none")}
    )
    assert {check.status for name, check in found.items() if name != "web address"} == {"fail"}
    assert "chmod" in found["web.tls.key"].next_step
    assert all(check.next_step for name, check in found.items() if name != "web address")
