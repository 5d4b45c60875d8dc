"""Checks of the web server that remit.yaml describes: where it listens, its certificate, and the files of its secrets.

Only where something is said about it: the default is loopback and needs nothing. No private key and no secret is read.
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
        return ADDRESS.ok(f"{where}: this machine alone reaches it")
    if web.tls is not None:
        return ADDRESS.ok(f"{where}, with TLS: other machines reach it")
    if web.insecure_http:
        return ADDRESS.warn(
            f"{where}, without TLS: whoever is on the way reads tokens and cookies",
            "Have a proxy with TLS in front, on this machine; or set web.tls in remit.yaml.",
        )
    return ADDRESS.fail(
        f"{where}, without TLS: the server will not start",
        "Set web.tls in remit.yaml; or, where a proxy in front has TLS, web.insecure_http: true.",
    )


def _check_certificate(path: str, now: datetime) -> Check:
    with Path(path).open("rb") as stream:
        text = stream.read(_MOST_BYTES)
    try:
        over = x509.load_pem_x509_certificates(text)[0].not_valid_after_utc
    except ValueError:
        return CERTIFICATE.fail(f"{path} is no certificate in PEM", "Mend web.tls.certificate in remit.yaml.")
    until = f"{over:%Y-%m-%d}"
    if over <= now:
        return CERTIFICATE.fail(f"{path} is over since {until}", "Have a new one issued; browsers refuse this one.")
    if over - now < _SOON:
        return CERTIFICATE.warn(f"{path} is valid until {until} only", "Have it renewed, and restart `remit serve`.")
    return CERTIFICATE.ok(f"{path}, valid until {until}")


def _check_secret(topic: Topic, path: Path) -> Check:
    """Where a link leads counts: what renews certificates links to the newest."""
    try:
        require_private(path.resolve(), what="the file", if_missing=f"Mend {topic.name} in remit.yaml.")
    except EnvironmentFailureError as problem:
        return topic.fail(f"{problem.what}: {path}", problem.next_step)
    return topic.ok(f"{path}, closed to others")
