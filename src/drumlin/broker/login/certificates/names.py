"""The distinguished name of a client certificate, as Java writes it (RFC 2253).

ACLs and super users are compared as text, so every character counts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography import x509

#: The attributes that Java writes by name; others are written by number, their value as DER in
#: hexadecimal.
_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_SPECIAL: Final = re.compile(r'[,=+<>#;"\\]')


def distinguished_name(certificate: bytes) -> str:
    """The subject of a certificate (in DER), the most specific part first."""
    from cryptography import x509

    subject = x509.load_der_x509_certificate(certificate).subject
    return name_text(subject)


def name_text(name: x509.Name) -> str:
    """A distinguished name as `X500Principal.getName()` writes it."""
    return ",".join("+".join(map(_attribute, each)) for each in reversed(name.rdns))


def _attribute(attribute: x509.NameAttribute[str | bytes]) -> str:
    number, value = attribute.oid.dotted_string, attribute.value
    keyword = _KEYWORDS.get(number)
    if keyword is None or isinstance(value, bytes):
        return f"{keyword or number}=#{_der_of(attribute).hex()}"
    return f"{keyword}={_escaped(value)}"


def _escaped(text: str) -> str:
    within = text.strip(" ")
    before = len(text) - len(text.lstrip(" "))
    after = len(text) - before - len(within)
    return "\\ " * before + _SPECIAL.sub(r"\\\g<0>", within) + "\\ " * after


def _der_of(attribute: x509.NameAttribute[str | bytes]) -> bytes:
    """The DER of an attribute's value."""
    from cryptography import x509

    content = x509.Name([attribute]).public_bytes()
    for _ in range(3):  # a sequence, in it a set, in it a pair
        content = _content(content)[0]
    return _content(content)[1]  # the pair is the attribute's number and its value


def _content(der: bytes) -> tuple[bytes, bytes]:
    """The content of the first value, and the bytes after the value."""
    size, start = der[1], 2
    if size > 127:
        start += size & 127
        size = int.from_bytes(der[2:start])
    return der[start : start + size], der[start + size :]
