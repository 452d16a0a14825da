"""Reads passwords where no other process can see them: from a prompt, standard input or a file."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import Annotated

from drumlin.cli.terminal.commands import Option
from drumlin.cli.terminal.options import can_ask
from drumlin.cli.terminal.output import Failure
from drumlin.peer.security.secret import Secret

PasswordFile = Annotated[
    Path | None,
    Option(
        "--password-file",
        metavar="FILE",
        help="Its first line is the password. Without it: a prompt, or standard input.",
    ),
]


def read_password(user: str, file: Path | None) -> Secret:
    """The new password of a user.

    Raises:
        Failure: there is none, or the two typed passwords differ.
    """
    if file is not None:
        return _first_line(_content(file), f"{file} has")
    if not can_ask():
        return _first_line(sys.stdin.readline() if sys.stdin else "", "standard input has")
    password = getpass.getpass(f"New password of {user}: ")
    if password != getpass.getpass("Once more: "):
        raise Failure("the two passwords differ")
    return _first_line(password, "there is")


def _content(file: Path) -> str:
    try:
        return file.read_bytes().decode()
    except OSError as error:
        raise Failure(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Failure(f"{file}: it is not UTF-8") from None


def _first_line(text: str, where: str) -> Secret:
    """All up to the end of the line: what else separates lines for Python is in the password."""
    line = text.partition("\n")[0].removesuffix("\r")
    if not line:
        raise Failure(f"{where} no password")
    return Secret(line)
