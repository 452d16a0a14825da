"""The connection settings of a user in files, while the user's password changes.

New files are written beside the old ones before the password is changed, and replace them once the
change has succeeded. So at any time, one of the two has the valid password.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from drumlin.peer.security.secret import Secret
from drumlin.securing.client_files import Connection, connection_in
from drumlin.securing.private_files import put_in_place, write_private

#: The suffix of files with a new password that is not known to be valid yet.
NEW: Final = ".new"


@dataclass
class OwnFiles:
    """The outcome for each of a user's files; filled while the password is changed."""

    #: Files that now have the new password.
    changed: list[Path] = field(default_factory=list)
    #: Files left unchanged: they cannot be read or written, are for other servers, or were edited
    #: so that the login in them is not found.
    left: list[Path] = field(default_factory=list)
    #: New files, not in place yet, as the new password is not known to be valid.
    beside: list[Path] = field(default_factory=list)


@contextmanager
def with_new_password(
    config: Path, user: str, password: Secret, address: str | None = None
) -> Iterator[OwnFiles]:
    """Update the user's files with the new password, if the block succeeds in changing it.

    After an error the new files stay beside the old ones, as it is not known which of the two
    passwords is valid.

    Args:
        config: the properties file for Java's clients. Nothing is written unless it logs in as
            this user. The user's other files are in the same folder.
        address: the address of the servers where the password changes; files for another one are
            left unchanged. None: accept the address in the files.
    """
    files = OwnFiles()
    known = _of(config)
    if known is not None and known.user == user:
        _prepare(config, known, replace(known, password=password), address, files)
    yield files
    while files.beside:
        new = files.beside[0]
        path = new.with_name(new.name.removesuffix(NEW))
        put_in_place(new, path)
        files.changed.append(path)
        del files.beside[0]


def _of(config: Path) -> Connection | None:
    try:
        return connection_in(config)
    except OSError:
        return None


def _prepare(
    config: Path, known: Connection, new: Connection, address: str | None, files: OwnFiles
) -> None:
    """Write a new file beside each file that still has the login with which it was written."""
    logins = new.logins(config)
    for path, login in known.logins(config).items():
        beside = path.with_name(path.name + NEW)
        try:
            text = path.read_text()
            if text.count(login) == 1 and address in (None, known.bootstrap):
                write_private(beside, text.replace(login, logins[path]))
                files.beside.append(beside)
            else:
                files.left.append(path)
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError):
            files.left.append(path)
