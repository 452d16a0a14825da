"""Stores of keys and certificates: PKCS12 as PEM, and JKS, which is refused.

No maintained library reads JKS, which Java itself has replaced by PKCS12.
`cryptography`, which takes a while to import, is imported only to read a store.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

from drumlin.peer.security.settings import SecurityOptionError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_JAVA_MAGIC: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_PKCS12: Final = re.compile(
    rb"\x30(?:[\x00-\x7f]|\x81.|\x82..|\x83...|\x84....)\x02\x01\x03", re.DOTALL
)


def is_pkcs12(data: bytes) -> bool:
    """Whether a file with this content is a PKCS12 store."""
    return _PKCS12.match(data) is not None


def is_jks(data: bytes) -> bool:
    """Whether a file with this content is a store in Java's own format, JKS or JCEKS."""
    return data.startswith(_JAVA_MAGIC)


def refusal_of_jks(path: str) -> str:
    """The reason why a JKS store is refused, and the command that converts it."""
    source, pkcs12 = (shlex.quote(each) for each in (path, str(Path(path).with_suffix(".p12"))))
    command = (
        f"keytool -importkeystore -srckeystore {source} -destkeystore {pkcs12} "
        "-deststoretype PKCS12"
    )
    return f"{path} is a JKS store, and PKCS12 or PEM is needed; convert it with: {command}"


def pem_of_pkcs12(data: bytes, password: str | None, *, what: str, holds_key: bool = False) -> str:
    """All certificates of a store. With `holds_key`: the store's key, unencrypted, then the key's
    certificate and its chain.

    Raises:
        SecurityOptionError: the store cannot be read, or not with this password.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import pkcs12

    try:
        store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        doubt = "has it a password?" if password is None else "is its password right?"
        why = f"the store cannot be read; {doubt}"
        raise SecurityOptionError(f"{what}: {why}") from None
    own = [] if store.cert is None else [store.cert.certificate]
    others = [each.certificate for each in store.additional_certs]
    pem = b""
    if holds_key and store.key is not None:
        own, others = _chain(own, others), []
        pem = store.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    for each in (*own, *others):
        pem += each.public_bytes(serialization.Encoding.PEM)
    return pem.decode()


def _chain(own: list[Certificate], others: list[Certificate]) -> list[Certificate]:
    """The certificate and those that have signed it; the store may hold other chains, too."""
    chain, left = [*own], [*others]
    while chain:
        signers = [each for each in left if each.subject == chain[-1].issuer]
        if not signers or chain[-1].subject == chain[-1].issuer:
            break
        chain.append(signers[0])
        left.remove(signers[0])
    return chain
