"""A certificate authority that exists only in the memory of this process, and its certificates for hosts.

Chromium trusts it because its key is an option of the command that starts Chromium. So there is nothing to install and
nothing to steal: no file has the key, and no other program trusts it.
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
    """Makes a TLS context for any host. `spki` is the hash of the key that Chromium is started to trust."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._leaf_key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Remit, this browser only")])
        now = datetime.now(UTC)
        # Longer than any host process runs. Chromium does not check it, because it trusts the key.
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
        """The certificate in PEM. It is public, because it is sent with every server certificate."""
        return self._certificate.public_bytes(Encoding.PEM)

    def context_for(self, host: str) -> ssl.SSLContext:
        """Return the context for the server's side of a connection. It accepts only clients that ask for this host."""
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
        # The ssl module reads keys only from files. This file is in memory and has no name.
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
            # No subject name, because a common name has at most 64 characters. So the next extension is critical.
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
        # Chromium keeps a dot at the end of a name.
        return (
            None
            if (name and name.removesuffix(".")) == wanted
            else ssl.AlertDescription.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        )

    return check
