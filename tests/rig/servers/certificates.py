"""Certificates and keys for a test, made by Java, which every test with a Kafka has."""

from __future__ import annotations

import subprocess
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates

from rig.jvm.jars import java
from rig.jvm.java import SHORT_LIVED_JVM

_SOURCE = Path(__file__).with_name("Certificates.java")
_EXPORTS = "java.base/sun.security.tools.keytool=ALL-UNNAMED"
#: Of the `…-locked.key`, and of `pkcs12`.
KEY_PASSWORD = "locked"


class Certificates:
    """A folder with the PEM files of `ca`, `server`, `client`, and some that are no good.

    `expired` and `elsewhere` (another host's name) are signed by `ca`; `foreign` by `stranger`,
    which no broker trusts.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        command = [java(), *SHORT_LIVED_JVM.split(), "--add-exports", _EXPORTS, str(_SOURCE)]
        done = subprocess.run(
            [*command, str(folder)], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr

    def path(self, name: str) -> str:
        """The path of a file such as "ca.crt"."""
        return str(self.folder / name)

    def pkcs12(self, name: str) -> str:
        """The path of a store with one's key and chain; its password is KEY_PASSWORD."""
        pem = (self.folder / f"{name}.pem").read_bytes()
        own, *others = x509.load_pem_x509_certificates(pem)
        key = serialization.load_pem_private_key(pem, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        lock = serialization.BestAvailableEncryption(KEY_PASSWORD.encode())
        path = self.folder / f"{name}.p12"
        path.write_bytes(serialize_key_and_certificates(b"own", key, own, others, lock))
        return str(path)

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()
