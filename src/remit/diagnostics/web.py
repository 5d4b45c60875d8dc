"""Checks of the web server in remit.yaml: its address, its certificate, and the files of its secrets.

There are no checks for the default settings, because the default address is loopback and needs no files. No private key
and no secret is read.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509

from remit.contracts.config.web import Web
from remit.core.errors import EnvironmentFailureError
from remit.core.ids import Clock
from remit.diagnostics.check import Check, Topic
from remit.fs.state_dir import require_private

ADDRESS: Final = Topic("web address", "remit serve")
CERTIFICATE: Final = Topic("web certificate", "remit serve")
_SOON: Final = timedelta(days=14)
_MOST_BYTES: Final = 256 << 10


def check_web(web: Web, is_loopback: Callable[[str], bool], clock: Clock) -> list[Check]:
    if web == Web():
        return []
    found = [ADDRESS.run(lambda: _check_address(web, is_loopback))]
    secrets = {"web.metrics.secret_file": web.metrics.secret_file}
    if web.oidc is not None:
        secrets["web.oidc.client_secret_file"] = web.oidc.client_secret_file
    if (tls := web.tls) is not None:
        found.append(CERTIFICATE.run(lambda: _check_certificate(tls.certificate, clock())))
        secrets["web.tls.key"] = tls.key
    for name, path in secrets.items():
        if path is not None:
            topic = Topic(name, "remit serve")
            found.append(topic.run(lambda topic=topic, path=path: _check_secret(topic, Path(path))))  # type: ignore[misc]
    return found


def _check_address(web: Web, is_loopback: Callable[[str], bool]) -> Check:
    where = f"{web.host} port {web.port}"
    if is_loopback(web.host):
        return ADDRESS.ok(f"{where}: only this machine can reach it")
    if web.tls is not None:
        return ADDRESS.ok(f"{where}, with TLS: other machines can reach it")
    if web.insecure_http:
        return ADDRESS.warn(
            f"{where}, without TLS: other machines on the network can read tokens and cookies",
            "Run a proxy with TLS in front of it, on this machine, or set web.tls in remit.yaml.",
        )
    return ADDRESS.fail(
        f"{where}, without TLS: the server will not start",
        "Set web.tls in remit.yaml. If a proxy in front of it has TLS, set web.insecure_http: true instead.",
    )


def _check_certificate(path: str, now: datetime) -> Check:
    with Path(path).open("rb") as stream:
        text = stream.read(_MOST_BYTES)
    try:
        over = x509.load_pem_x509_certificates(text)[0].not_valid_after_utc
    except ValueError:
        return CERTIFICATE.fail(f"{path} is not a certificate in PEM", "Correct web.tls.certificate in remit.yaml.")
    until = f"{over:%Y-%m-%d}"
    if over <= now:
        return CERTIFICATE.fail(f"{path} expired on {until}", "Get a new certificate. Browsers refuse this one.")
    if over - now < _SOON:
        return CERTIFICATE.warn(f"{path} is valid only until {until}", "Renew it, and restart `remit serve`.")
    return CERTIFICATE.ok(f"{path}, valid until {until}")


def _check_secret(topic: Topic, path: Path) -> Check:
    """Check that the file is private. Follows a link, because tools that renew certificates link to the newest one."""
    try:
        require_private(path.resolve(), what="the file", if_missing=f"Correct {topic.name} in remit.yaml.")
    except EnvironmentFailureError as problem:
        return topic.fail(f"{problem.what}: {path}", problem.next_step)
    return topic.ok(f"{path}, private")
