"""Certificates and keys as PEM, from a file or from an option's text.

A file is recognized as PEM or as a PKCS12 store by its contents, not by its name. No error message
shows the contents.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from drumlin.peer.security.key_stores import is_jks, is_pkcs12, pem_of_pkcs12, refusal_of_jks
from drumlin.peer.security.settings import SecurityOptionError, is_pem, may_be_key

_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_FILE_BYTES_MAX: Final = 16 << 20


def pem_of(given: str, what: str, *, holds_key: bool = False, password: str | None = None) -> str:
    """The PEM blocks of a text, of a PEM file (with line breaks restored), or of a PKCS12 store.

    `password` is that of the store, or of an encrypted key in PEM, which stays encrypted.

    Raises:
        SecurityOptionError: the file does not exist or has another format, or the store cannot be
            read.
    """
    data = b"" if is_pem(given) else _content(given, what)
    if is_pkcs12(data):
        return pem_of_pkcs12(data, password, what=f"{what}: {given}", holds_key=holds_key)
    where = "the text" if is_pem(given) else _shown(given)
    if password is not None and not holds_key:
        raise SecurityOptionError(
            f"{what}: {where} is no PKCS12 store, and only such has a password"
        )
    text = given if is_pem(given) else data.decode("utf-8", "replace")
    blocks = [_block(kind, body) for kind, body in _BLOCK.findall(text)]
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


def _content(path: str, what: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(_FILE_BYTES_MAX)
    except (OSError, ValueError) as error:  # ValueError if the text cannot be a path
        why = getattr(error, "strerror", None) or "that is no path"
        raise SecurityOptionError(f"{what}: {_shown(path)}: {why}") from None
    if is_jks(data):
        raise SecurityOptionError(f"{what}: {refusal_of_jks(path)}")
    return data


def _shown(path: str) -> str:
    return f"a text of {len(path)} characters" if may_be_key(path) else path


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
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        file.write(text.encode())
        file.flush()
        yield file.name
