"""Cipher suites: Java's names translated into OpenSSL's. Pure."""

from __future__ import annotations

import re
from typing import Final

#: The suites of TLS 1.3. Python's `ssl` cannot choose among them: OpenSSL offers all three.
_OF_1_3: Final = (
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_GCM_SHA256",
)
_SUITE: Final = re.compile(
    r"TLS_(?:(ECDHE|DHE)_)?(ECDSA|RSA)_WITH_(AES_(128|256)_(GCM|CBC)|CHACHA20_POLY1305)_(SHA\d*)"
)


def openssl_names(
    suites: tuple[str, ...], versions: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """OpenSSL's names of the suites older than TLS 1.3, and the versions that have a suite.

    If no suites are given, there are no names, so that OpenSSL chooses, and all versions stay.

    Raises:
        ValueError: a suite is not supported, or unnamed ones would be offered as well.
    """
    if not suites:
        return (), versions
    of_1_3 = [each for each in suites if each in _OF_1_3]
    older = tuple(_openssl_name(each) for each in suites if each not in _OF_1_3)
    if of_1_3 and "TLSv1.3" in versions and len(set(of_1_3)) < len(_OF_1_3):
        missing = ", ".join(each for each in _OF_1_3 if each not in of_1_3)
        raise ValueError(f"must name all suites of TLSv1.3 or none of them: {missing} is missing")
    left = tuple(each for each in versions if (of_1_3 if each == "TLSv1.3" else older))
    if not left:
        raise ValueError("names no suite of a version in ssl.enabled.protocols")
    return older, left


def _openssl_name(suite: str) -> str:
    matched = _SUITE.fullmatch(suite)
    if matched is None:
        raise ValueError(f"{suite} is not served")
    exchange, signature, cipher, bits, mode, digest = matched.groups()
    parts = [] if exchange is None else [exchange, signature]
    if cipher == "CHACHA20_POLY1305":
        return "-".join([*parts, "CHACHA20-POLY1305"])
    parts.append(f"AES{bits}")
    if mode == "GCM":
        parts.append("GCM")
    return "-".join([*parts, digest])
