"""Reasons for failed TLS handshakes, for logs. They contain no bytes that the peer has sent."""

from __future__ import annotations

import ssl
from typing import Final

_CERTIFICATE_HAS_EXPIRED: Final = 10  # of X509_verify
#: OpenSSL's errors for a connection that begins without TLS.
NOT_TLS: Final = (
    "WRONG_VERSION_NUMBER",
    "HTTP_REQUEST",
    "HTTPS_PROXY_REQUEST",
    "UNKNOWN_PROTOCOL",
)
_WHY: Final = {
    **dict.fromkeys(NOT_TLS, "it does not speak TLS"),
    "UNSUPPORTED_PROTOCOL": "no version of TLS in common",
    "NO_SHARED_CIPHER": "no cipher suite in common",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it has shown no certificate",
}


class HandshakeTooLong(OSError):
    """The peer has sent more than any client needs, and the handshake is not complete."""

    def __str__(self) -> str:
        return "it is too long"


def why_failed(reason: Exception | str) -> str:
    """The reason for the end of a handshake: from an error, or a text of ours as it is."""
    if isinstance(reason, str):
        return reason
    if isinstance(reason, HandshakeTooLong):
        return str(reason)
    if isinstance(reason, ssl.SSLEOFError) or not isinstance(reason, ssl.SSLError):
        return "it has gone away"
    if isinstance(reason, ssl.SSLCertVerificationError):
        if reason.verify_code == _CERTIFICATE_HAS_EXPIRED:
            return "its certificate has expired"
        return "its certificate is not trusted"
    code = reason.reason or ""
    if "_ALERT_" not in code:
        return _WHY.get(code, "it does not keep to TLS")
    if "CERTIFICATE" in code or "UNKNOWN_CA" in code:
        return "it does not trust the broker's certificate"
    return "it has refused"
