"""A certificate authority in the test's process: issues what a test wants, without Java."""

from __future__ import annotations

import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)
HERE = ("localhost",)


class Issued:
    """A certificate and its key."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate, self._key = certificate, key

    @property
    def serial(self) -> int:
        return self._certificate.serial_number

    @property
    def der(self) -> bytes:
        return self._certificate.public_bytes(serialization.Encoding.DER)

    @property
    def pem(self) -> str:
        """Key and certificate."""
        key = self._key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return (key + self._certificate.public_bytes(serialization.Encoding.PEM)).decode()

    def pkcs12(self, password: str, *others: Issued) -> bytes:
        """A store with the key; `others` are certificates beside it."""
        return pkcs12.serialize_key_and_certificates(
            b"broker",
            self._key,
            self._certificate,
            [each._certificate for each in others] or None,
            serialization.BestAvailableEncryption(password.encode()),
        )


class Authority:
    """One CA; `pem` is its certificate."""

    def __init__(self, name: str) -> None:
        self._name, self._key = name, ec.generate_private_key(ec.SECP256R1())
        self._own = self._signed(name, self._key.public_key(), (), 30, is_authority=True)
        self.pem = self._own.public_bytes(serialization.Encoding.PEM).decode()
        #: As `Issued.pkcs12` takes it.
        self.own = Issued(self._own, self._key)

    def issue(
        self,
        name: str,
        hosts: tuple[str, ...] = HERE,
        days: int = 30,
        *,
        valid_in_days: int = -100,
        use: x509.ObjectIdentifier | None = None,
    ) -> Issued:
        """A certificate for a name, and for hosts; with less than no days left, it has expired.

        use: what it may be used for alone.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        signed = self._signed(
            name, key.public_key(), hosts, days, valid_in_days=valid_in_days, use=use
        )
        return Issued(signed, key)

    def _signed(
        self,
        name: str,
        key: ec.EllipticCurvePublicKey,
        hosts: tuple[str, ...],
        days: int,
        *,
        is_authority: bool = False,
        valid_in_days: int = -100,
        use: x509.ObjectIdentifier | None = None,
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(_named(name))
            .issuer_name(_named(self._name))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + valid_in_days * _DAY)
            .not_valid_after(now + days * _DAY)
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        )
        if hosts:
            names = x509.SubjectAlternativeName([x509.DNSName(each) for each in hosts])
            builder = builder.add_extension(names, critical=False)
        if use is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
