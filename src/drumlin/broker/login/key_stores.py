"""PKCS12 stores as PEM. `cryptography`, which takes a while to import, is imported only here."""

from __future__ import annotations

from drumlin.peer.security.settings import SecurityOptionError


def pem_of_pkcs12(data: bytes, password: str | None, *, what: str) -> str:
    """The key, unencrypted, and all certificates of a store, the key's own first.

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
    pem = b""
    if store.key is not None:
        pem += store.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    own = [] if store.cert is None else [store.cert]
    for each in (*own, *store.additional_certs):
        pem += each.certificate.public_bytes(serialization.Encoding.PEM)
    return pem.decode()
