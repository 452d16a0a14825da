"""PKCS12 stores with more than one entry: what is shown, and what is trusted."""

from __future__ import annotations

from cryptography import x509

from drumlin.broker.login.certificates.key_stores import pem_of_pkcs12
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
