"""TLS: the context for a client's connections, and the meaning of errors.

The server's certificate is always checked; only the check of the host name can be turned off.
"""

from __future__ import annotations

import ssl
from typing import Final, NamedTuple

from drumlin.peer.peer_error import AuthenticationFailed, ConnectionLost, PeerError
from drumlin.peer.security.pem import as_file, pem_of
from drumlin.peer.security.secret import Secret
from drumlin.peer.security.settings import SecurityOptionError, Tls, revealed

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_UNKNOWN_CA: Final = frozenset({18, 19, 20, 21})  # X509_V_ERR_…: self-signed, or unknown issuer
_WRONG_NAME: Final = frozenset({62, 64})


def context_of(tls: Tls) -> ssl.SSLContext:
    """The context for the settings in `tls`.

    Raises:
        SecurityOptionError: a certificate or key cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.check_host_name
    context.minimum_version = min(_VERSIONS[each] for each in tls.versions)
    context.maximum_version = max(_VERSIONS[each] for each in tls.versions)
    if tls.ca is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        trust(context, pem_of(tls.ca, "CA certificates", password=_text(tls.ca_password)))
    if tls.certificate is not None:
        _show(context, tls)
    return context


def trust(context: ssl.SSLContext, pem: str) -> None:
    """Let `context` trust all of these certificates.

    Raises:
        SecurityOptionError: one cannot be read.
    """
    # As in Java, every certificate in the list is trusted, even one that is not a root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=pem)
    except ssl.SSLError as error:
        raise SecurityOptionError(f"CA certificates: {_reason(error)}") from None


def _show(context: ssl.SSLContext, tls: Tls) -> None:
    assert tls.certificate is not None
    password = _text(tls.key_password)
    certificate = revealed(tls.certificate)
    pem = pem_of(certificate, "client certificate", holds_key=True, password=password)
    if tls.key is not None:
        pem += pem_of(revealed(tls.key), "client key", holds_key=True, password=password)
    show(context, pem, password, "client")


def _text(secret: str | Secret | None) -> str | None:
    return None if secret is None else revealed(secret)


def show(context: ssl.SSLContext, pem: str, password: str | None, whose: str) -> None:
    """Let `context` show a certificate; `pem` has it, its chain and its key, in any order.

    Raises:
        SecurityOptionError: key or certificate cannot be read, or do not belong together.
    """
    if "PRIVATE KEY-----" not in pem:
        raise SecurityOptionError(f"{whose} certificate: the private key is missing")
    if password is None and "ENCRYPTED" in pem:
        raise SecurityOptionError(f"{whose} key: it is encrypted, and no password is given")
    try:
        with as_file(pem) as path:
            # Without a password OpenSSL would ask for one on the terminal.
            context.load_cert_chain(path, password=password or "")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            why = "the key does not belong to the certificate"
        elif password is not None:
            why = "the key cannot be read; is its password right?"
        else:
            why = f"it cannot be read ({_reason(error)})"
        raise SecurityOptionError(f"{whose} certificate and key: {why}") from None


class Hints(NamedTuple):
    """The settings that a user may have to change, depending on the peer."""

    ca: str
    certificate: str
    plain: str


OF_BROKER: Final = Hints(
    "ssl.truststore.…, Tls(ca=…)",
    "ssl.keystore.…, Tls(certificate=…)",
    "security.protocol PLAINTEXT or SASL_PLAINTEXT",
)
OF_TOKEN_ENDPOINT: Final = Hints(
    "ssl.truststore.… of the login module, token_tls=Tls(ca=…)",
    "ssl.keystore.… of the login module, token_tls=Tls(certificate=…)",
    "http://",
)


def explained(error: OSError, where: str, hints: Hints = OF_BROKER) -> PeerError:
    """The error for a TLS failure with the server at `where`; its message explains the cause.

    A permanent failure is an `AuthenticationFailed`; a connection that merely ended is a
    `ConnectionLost`.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return AuthenticationFailed(f"{where}: {_complaint(error, hints)}")
    reason = getattr(error, "reason", None) or ""
    if reason in {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"}:
        return AuthenticationFailed(
            f"{where}: the server does not use TLS there; a plain listener wants {hints.plain}"
        )
    if "ALERT" in reason:
        alert = reason.partition("ALERT_")[2].replace("_", " ").lower() or reason
        return AuthenticationFailed(
            f"{where}: it refused the TLS connection: {alert}{_hint(alert, hints)}"
        )
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        return AuthenticationFailed(f"{where}: no TLS connection: {_reason(error)}")
    return ConnectionLost(
        f"{where}: the connection ended in the TLS handshake; is it a plain listener "
        f"({hints.plain})?"
    )


def _complaint(error: ssl.SSLCertVerificationError, hints: Hints) -> str:
    if error.verify_code == 10:
        return "its certificate has expired"
    if error.verify_code in _UNKNOWN_CA:
        return (
            "its certificate was not signed by a CA that is trusted here "
            f"({error.verify_message}); is the right CA given ({hints.ca})?"
        )
    if error.verify_code in _WRONG_NAME:
        return f"its certificate is for another host name ({error.verify_message.rstrip('.')})"
    return f"its certificate is not valid: {error.verify_message}"


def _hint(alert: str, hints: Hints) -> str:
    if "certificate" not in alert and "ca" not in alert.split() and alert != "handshake failure":
        return ""
    return f"; does it want a client certificate, or another one ({hints.certificate})?"


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()
