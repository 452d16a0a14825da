"""The files by which a user connects, while the user's password changes.

They are written beside the present ones before anybody knows the new password, and take their place
once it counts: at any time the password that counts is in one of both.
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

#: What the names of files end with that have a password before it counts.
NEW: Final = ".new"


@dataclass
class OwnFiles:
    """What becomes of the files of a user."""

    #: Which have the new password.
    changed: list[Path] = field(default_factory=list)
    #: Which have the former one: they cannot be written, are of another address, or log in in a way
    #: that is not known here.
    left: list[Path] = field(default_factory=list)
    #: Which have the new password while it is not known to count.
    beside: list[Path] = field(default_factory=list)


@contextmanager
def with_new_password(
    config: Path, user: str, password: Secret, address: str | None = None
) -> Iterator[OwnFiles]:
    """Write the files of a user anew, if what happens meanwhile changes the password.

    After an error the files with the new password stay beside the others, as it is not known which
    of both counts.

    Args:
        config: the settings for Java's clients, if it is this user's; other files are beside it.
        address: of the servers where the password changes; None: of those that the files name.
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
    """Write the files beside those that log in as they were written to."""
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
