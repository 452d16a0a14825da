"""A private certificate authority, and the certificates that it issues.

`cryptography`, which takes a while to import, is imported only here.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_AUTHORITYS_LIFE: Final = timedelta(days=3650)
#: A broker renews its certificate at a start in the second half, so it is valid for another year.
LIFE: Final = timedelta(days=825)
#: Certificates begin earlier, as clocks of clients may be behind.
_SKEW: Final = timedelta(days=1)
NAME_LENGTH_MAX: Final = 64
_HOST_LENGTH_MAX: Final = 253
#: A part of a host's name; containers have names with "_" as well.
_LABEL: Final = re.compile(r"[a-zA-Z0-9_]([a-zA-Z0-9_-]{0,61}[a-zA-Z0-9_])?")


class UnusableCertificate(ValueError):
    """Invalid PEM; the message says what is wrong, and shows no key."""


@dataclass(frozen=True, slots=True)
class Issued:
    """The fields of a certificate."""

    name: str
    issuer: str
    hosts: tuple[str, ...]
    begins: datetime
    ends: datetime
    fingerprint: str

    def covers(self, hosts: Iterable[str]) -> bool:
        """Whether the certificate is valid for all of these hosts."""
        known = {_canonical(each) for each in self.hosts}
        return all(_canonical(each) in known for each in hosts)

    def is_in_second_half(self, now: datetime) -> bool:
        return now > self.begins + (self.ends - self.begins) / 2


class Authority:
    """An authority. Its key must stay secret: with it, anyone can impersonate any broker."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key

    @classmethod
    def make(cls, name: str) -> Authority:
        """A new authority, with a name by which people recognize it."""
        key = ec.generate_private_key(ec.SECP256R1())
        named = _named(name)
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(named)
            .issuer_name(named)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _SKEW)
            .not_valid_after(now + _AUTHORITYS_LIFE)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        )
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def of_pem(cls, pem: str) -> Authority:
        """The authority with this certificate and key.

        Raises:
            UnusableCertificate: `pem` has no certificate or no key.
        """
        certificate = _certificate(pem)
        try:
            key = serialization.load_pem_private_key(pem.encode(), None)
        except (ValueError, TypeError):
            raise UnusableCertificate("it has no key that can be read") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise UnusableCertificate("its key is not one of an elliptic curve")
        if key.public_key() != certificate.public_key():
            raise UnusableCertificate("its key is not that of its certificate")
        return cls(certificate, key)

    def pem(self) -> str:
        """Key and certificate: a secret."""
        return _pem_of_key(self._key) + self.certificate_pem()

    def certificate_pem(self) -> str:
        """The authority's certificate, which clients trust."""
        return _pem_of(self._certificate)

    def issue(self, name: str, hosts: Collection[str]) -> str:
        """A new key, and a certificate for it, as PEM: for a broker or a client.

        Raises:
            UnusableCertificate: a name cannot be written into a certificate.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        own = self._key.public_key()
        builder = (
            x509.CertificateBuilder()
            .subject_name(_named(name))
            .issuer_name(self._certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _SKEW)
            .not_valid_after(min(now + LIFE, self._certificate.not_valid_after_utc))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(own), False)
        )
        if hosts:
            names = [_general_name(each) for each in dict.fromkeys(hosts)]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), False)
        return _pem_of_key(key) + _pem_of(builder.sign(self._key, hashes.SHA256()))

    def has_issued(self, pem: str) -> bool:
        """Whether this authority has signed the first certificate in `pem`."""
        return _has_issued(self._certificate, pem)


def read_certificate(pem: str) -> Issued:
    """The fields of the first certificate in `pem`.

    Raises:
        UnusableCertificate: `pem` has no certificate.
    """
    found = _certificate(pem)
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        hosts: tuple[str, ...] = ()
    else:
        addresses = map(str, names.get_values_for_type(x509.IPAddress))
        hosts = (*names.get_values_for_type(x509.DNSName), *addresses)
    return Issued(
        found.subject.rfc4514_string(),
        found.issuer.rfc4514_string(),
        hosts,
        found.not_valid_before_utc,
        found.not_valid_after_utc,
        found.fingerprint(hashes.SHA256()).hex(":").upper(),
    )


def was_issued_by(pem: str, authorities: Iterable[str]) -> bool:
    """Whether any of these authorities' certificates has signed the first one in `pem`."""
    return any(_has_issued(_certificate(each), pem) for each in authorities)


def split_certificates(pem: str) -> list[str]:
    """The certificates in `pem`, each as PEM.

    Raises:
        UnusableCertificate: `pem` has no certificate.
    """
    try:
        return [_pem_of(each) for each in x509.load_pem_x509_certificates(pem.encode())]
    except ValueError:
        raise UnusableCertificate("it has no certificate that can be read") from None


def read_pem(path: Path) -> str:
    """The text of a file that has certificates.

    Raises:
        UnusableCertificate: it has none that can be read; the message names the file.
        OSError: it cannot be read.
    """
    text = path.read_text(errors="replace")
    try:
        split_certificates(text)
    except UnusableCertificate as error:
        raise UnusableCertificate(f"{path}: {error}") from None
    return text


def can_be_in_a_certificate(host: str) -> bool:
    """Whether a host's name or address can be written into a certificate."""
    try:
        _general_name(host)
    except UnusableCertificate:
        return False
    return True


def _has_issued(authority: x509.Certificate, pem: str) -> bool:
    try:
        _certificate(pem).verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _certificate(pem: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem.encode())
    except ValueError:
        raise UnusableCertificate("it has no certificate that can be read") from None


def _named(name: str) -> x509.Name:
    if not 0 < len(name) <= NAME_LENGTH_MAX:
        message = f"a certificate's name has 1 to {NAME_LENGTH_MAX} characters, not {len(name)}"
        raise UnusableCertificate(message)
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if len(host) > _HOST_LENGTH_MAX or not all(map(_LABEL.fullmatch, _labels(host))):
        raise UnusableCertificate(f"{host!r} is no host's name or address")
    return x509.DNSName(host)


def _labels(host: str) -> list[str]:
    """The parts of a name; without the first one if that stands for any."""
    return host.removeprefix("*.").removesuffix(".").split(".")


def _canonical(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.lower().rstrip(".")


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem_of(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _pem_of_key(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
