"""Certificates and keys as PEM, from a file or from an option's text.

Java's key stores are refused, with the command that converts them. No error message shows the
contents of a file.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from drumlin.peer.security.settings import SecurityOptionError, is_pem, may_be_key

_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_JAVA_MAGIC: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_PKCS12: Final = re.compile(
    rb"\x30(?:[\x00-\x7f]|\x81.|\x82..|\x83...|\x84....)\x02\x01\x03", re.DOTALL
)
FILE_BYTES_MAX: Final = 16 << 20


def pem_of(given: str, what: str, *, holds_key: bool = False) -> str:
    """The PEM blocks of a file or of a text, with their line breaks restored.

    Raises:
        SecurityOptionError: the file does not exist, or is not PEM.
    """
    text = given if is_pem(given) else _file_text(given, what, holds_key)
    blocks = [_block(kind, body) for kind, body in _BLOCK.findall(text)]
    where = "the text" if is_pem(given) else _shown(given)
    if not blocks:
        raise SecurityOptionError(f"{what}: {where} holds no PEM (-----BEGIN …)")
    if not all(each.isascii() for each in blocks):
        raise SecurityOptionError(f"{what}: {where} holds PEM with other characters than ASCII")
    return "\n".join(blocks) + "\n"


def _block(kind: str, body: str) -> str:
    # Kafka accepts PEM without line breaks, which options often lose; OpenSSL does not. Text pasted
    # from JSON or YAML has a backslash and a letter for each, which PEM itself never has.
    body = body.replace("\\r", "").replace("\\n", "\n")
    if ":" not in body:  # except for old encrypted keys, which have headers
        packed = "".join(body.split())
        body = "\n".join(packed[at : at + 64] for at in range(0, len(packed), 64))
    return f"-----BEGIN {kind}-----\n{body.strip()}\n-----END {kind}-----"


def _file_text(path: str, what: str, holds_key: bool) -> str:
    try:
        with Path(path).open("rb") as file:
            data = file.read(FILE_BYTES_MAX)
    except (OSError, ValueError) as error:  # ValueError if the text cannot be a path
        why = getattr(error, "strerror", None) or "that is no path"
        raise SecurityOptionError(f"{what}: {_shown(path)}: {why}") from None
    if data.startswith(_JAVA_MAGIC):
        raise SecurityOptionError(f"{what}: {refusal_of_store(path, 'JKS', holds_key)}")
    if is_pkcs12(data):
        raise SecurityOptionError(f"{what}: {refusal_of_store(path, 'PKCS12', holds_key)}")
    return data.decode("utf-8", "replace")


def is_pkcs12(data: bytes) -> bool:
    """Whether a file with this content is a PKCS12 store."""
    return _PKCS12.match(data) is not None


def _shown(path: str) -> str:
    return f"a text of {len(path)} characters" if may_be_key(path) else path


def refusal_of_store(path: str, kind: str, holds_key: bool) -> str:
    """The reason why a Java store is refused, and the command that converts it to PEM."""
    stem = str(Path(path).with_suffix(""))
    source, pem, pkcs12 = (shlex.quote(each) for each in (path, f"{stem}.pem", f"{stem}.p12"))
    if not holds_key:
        command = f"keytool -list -rfc -keystore {source} > {pem}"
    elif kind == "PKCS12":
        command = f"openssl pkcs12 -in {source} -out {pem}"
    else:
        command = (
            f"keytool -importkeystore -srckeystore {source} -destkeystore {pkcs12} "
            f"-deststoretype PKCS12 && openssl pkcs12 -in {pkcs12} -out {pem}"
        )
    return f"{path} is a {kind} store and PEM is needed; convert it with: {command}"


@contextlib.contextmanager
def as_file(text: str) -> Iterator[str]:
    """The path of a file that contains `text`, for a library that accepts only files.

    The file is in memory if the system supports that, and only this user may read it.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(text.encode())
        file.flush()
        yield file.name
