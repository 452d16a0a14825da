"""PKCS12 stores: what is shown of them, what is trusted, and what is told of those that fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

import drumlin
from drumlin.peer.security.key_stores import pem_of_pkcs12
from drumlin.peer.security.tls import context_of
from drumlin.security import Security, SecurityOptionError, Tls
from rig.data.authority import Authority


def _names(pem: str) -> list[str]:
    found = x509.load_pem_x509_certificates(pem.encode())
    return [each.subject.rfc4514_string() for each in found]


def test_a_key_is_shown_with_its_chain_and_nothing_else() -> None:
    authority, stranger = Authority("ours"), Authority("strangers")
    others = (stranger.issue("another"), stranger.own, authority.own)
    store = authority.issue("broker").pkcs12("secret", *others)
    shown = pem_of_pkcs12(store, "secret", what="store", holds_key=True)
    assert _names(shown) == ["CN=broker", "CN=ours"]
    assert shown.count("BEGIN PRIVATE KEY") == 1
    trusted = pem_of_pkcs12(store, "secret", what="store")
    assert set(_names(trusted)) == {"CN=broker", "CN=ours", "CN=strangers", "CN=another"}
    assert "PRIVATE KEY" not in trusted


@pytest.mark.parametrize(
    ("password", "data", "why"),
    [
        (None, None, "the store cannot be read; has it a password"),
        ("hunter3", None, "the store cannot be read; is its password right"),
        ("hunter2", -40, "the store cannot be read; is its password right"),
    ],
    ids=["no password", "another password", "cut short"],
)
@pytest.mark.parametrize("part", ["ca", "certificate"])
def test_a_store_that_cannot_be_read_is_named(
    tmp_path: Path, password: str | None, data: int | None, why: str, part: str
) -> None:
    path = tmp_path / "store.p12"
    path.write_bytes(Authority("ours").issue("client").pkcs12("hunter2")[:data])
    secret = {"ca": "ca_password", "certificate": "key_password"}[part]
    tls = Tls(**{part: str(path), secret: password})  # type: ignore[arg-type]
    assert "hunter" not in repr(tls)
    with pytest.raises(SecurityOptionError, match=f"{path}: {why}") as caught:
        drumlin.connect("127.0.0.1:1", security=Security(tls))
    assert "hunter" not in str(caught.value)


def test_a_store_without_a_key_shows_nothing(tmp_path: Path) -> None:
    authority = Authority("ours")
    path = tmp_path / "store.p12"
    trusted = [
        pkcs12.PKCS12Certificate(x509.load_pem_x509_certificate(authority.pem.encode()), b"a")
    ]
    lock = serialization.BestAvailableEncryption(b"hunter2")
    path.write_bytes(pkcs12.serialize_java_truststore(trusted, lock))
    with pytest.raises(SecurityOptionError, match="client certificate: the private key is missing"):
        context_of(Tls(certificate=str(path), key_password="hunter2"))
    context = context_of(Tls(ca=str(path), ca_password="hunter2"))
    assert [each["subject"] for each in context.get_ca_certs()] == [((("commonName", "ours"),),)]
