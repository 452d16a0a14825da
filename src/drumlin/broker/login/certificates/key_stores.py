"""PKCS12 stores as PEM. `cryptography`, which takes a while to import, is imported only here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumlin.peer.security.settings import SecurityOptionError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


def pem_of_pkcs12(data: bytes, password: str | None, *, what: str, holds_key: bool = False) -> str:
    """All certificates of a store; of one that `holds_key` the first key, unencrypted, and its
    chain, the key's own certificate first.

    Raises:
        SecurityOptionError: the store cannot be read, or not with this password.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import pkcs12

    try:
        store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        why = "the store cannot be read; is its password right?"
        raise SecurityOptionError(f"{what}: {why}") from error
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
    """The certificate and those that have signed it: other keys of the store have theirs."""
    chain, left = [*own], [*others]
    while chain:
        signers = [each for each in left if each.subject == chain[-1].issuer]
        if not signers or chain[-1].subject == chain[-1].issuer:
            break
        chain.append(signers[0])
        left.remove(signers[0])
    return chain
