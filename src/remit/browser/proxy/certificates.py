"""An authority that exists in the memory of this process only, and the certificates it gives to hosts.

Chromium believes it because its key is named when Chromium is started, so there is nothing to install and nothing
to steal: no file holds the key, and no other program trusts it.
"""

import os
import ssl
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from ipaddress import ip_address
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFE: Final = timedelta(days=2)
RENEWED_AFTER: Final = timedelta(days=1)
CLOCK_SLACK: Final = timedelta(days=1)
MOST_HOSTS: Final = 500


class Authority:
    """Makes a TLS context for any host. `spki` is what Chromium is told to believe."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._leaf_key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Remit, this browser only")])
        now = datetime.now(UTC)
        # Longer than any host process lives. Chromium does not look: the key is what it was told of.
        self._certificate = (
            self._builder(self._key, now, timedelta(days=365))
            .subject_name(self._name)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, SHA256())
        )
        public = self._key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self.spki: Final = b64encode(sha256(public).digest()).decode()
        self._contexts: OrderedDict[str, tuple[datetime, ssl.SSLContext]] = OrderedDict()

    @property
    def certificate(self) -> bytes:
        """In PEM. It is public: every server certificate is sent with it."""
        return self._certificate.public_bytes(Encoding.PEM)

    def context_for(self, host: str) -> ssl.SSLContext:
        """For the server's side of a connection, to a client that asks for this host and no other."""
        now = datetime.now(UTC)
        cached = self._contexts.get(host)
        if cached and now - cached[0] < RENEWED_AFTER:
            self._contexts.move_to_end(host)
            return cached[1]
        context = self._make_context(host, now)
        self._contexts[host] = (now, context)
        if len(self._contexts) > MOST_HOSTS:
            self._contexts.popitem(last=False)
        return context

    def _make_context(self, host: str, now: datetime) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        context.sni_callback = _require_server_name(host)
        key = self._leaf_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        # The ssl module reads keys from files only; this one is memory without a name.
        descriptor = os.memfd_create("remit-certificate")
        try:
            os.write(descriptor, self._leaf(host, now) + self.certificate + key)
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
        return context

    def _leaf(self, host: str, now: datetime) -> bytes:
        try:
            name: x509.GeneralName = x509.IPAddress(ip_address(host))
        except ValueError:
            name = x509.DNSName(host)
        certificate = (
            self._builder(self._leaf_key, now, LIFE)
            # Without a name of its own, for a common name ends at 64 characters; hence the next line is critical.
            .subject_name(x509.Name([]))
            .add_extension(x509.SubjectAlternativeName([name]), critical=True)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .sign(self._key, SHA256())
        )
        return certificate.public_bytes(Encoding.PEM)

    def _builder(self, key: ec.EllipticCurvePrivateKey, now: datetime, life: timedelta) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - CLOCK_SLACK)
            .not_valid_after(now + life)
        )


def _require_server_name(host: str) -> Callable[[ssl.SSLObject, str, ssl.SSLContext], int | None]:
    try:
        ip_address(host)
        wanted = None  # addresses are not sent as server names
    except ValueError:
        wanted = host

    def check(_connection: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> int | None:
        # Chromium leaves a dot at the end of a name where it was.
        return (
            None
            if (name and name.removesuffix(".")) == wanted
            else ssl.AlertDescription.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        )

    return check
