"""`drumlin users`: the users who can log in by SCRAM, and their passwords."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

from drumlin.cli.access.passwords import PasswordFile, read_password
from drumlin.cli.access.user_stores import NUMBERS, UserStore, user_store
from drumlin.cli.reach.command_config import CommandConfig
from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import Argument, Group, Option
from drumlin.cli.terminal.options import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    Yes,
    confirm,
    examples,
)
from drumlin.cli.terminal.outcomes import for_each
from drumlin.peer.security.secret import Secret

_EXIT_USAGE: Final = 2

app: Final = Group(help="Add, list and remove users of SCRAM; change their passwords.")

Name = Annotated[str, Argument("NAME", help="The user's name, as ACLs have it after 'User:'.")]
Mechanisms = Annotated[
    list[str] | None,
    Option(
        "--mechanism",
        metavar="MECHANISM",
        help="SCRAM-SHA-256 or SCRAM-SHA-512; repeatable. Default: both.",
    ),
]
Data = Annotated[
    Path | None,
    Option(
        "--data",
        metavar="DIR",
        help="In the data directory of a broker that does not run, or has never run.",
    ),
]


@app.add(
    epilog=examples(
        "drumlin users add alice --config data/client.properties",
        "drumlin users add etl --password-file etl.password --config data/client.properties",
        "drumlin users add alice --data ./data",
    )
)
def add(
    name: Name,
    password_file: PasswordFile = None,
    mechanisms: Mechanisms = None,
    data: Data = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Add a user, with a password from a prompt, from standard input, or from a file.

    A new user has no rights yet: `drumlin acls add` grants them.
    """
    wanted = _mechanisms(mechanisms)
    with user_store(data, bootstrap, command_config, may_be_new=True) as store:
        if name in store.users():
            raise output.Failure(f"user {name} exists: drumlin users passwd changes the password")
        store.put(name, read_password(name, password_file), wanted)
    _show(name, "added", wanted, as_json)


@app.add(
    epilog=examples(
        "drumlin users passwd alice --config data/client.properties",
        "drumlin users passwd admin --config data/client.properties",
    )
)
def passwd(
    name: Name,
    password_file: PasswordFile = None,
    mechanisms: Mechanisms = None,
    data: Data = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Change the password of a user, for all of the user's mechanisms.

    Who is logged in stays so. If it is the user of --config, that file gets the new password, and
    so do client.json and kcat.conf beside it; likewise those in --data.
    """
    with user_store(data, bootstrap, command_config) as store:
        known = _known(store, name)
        wanted = _mechanisms(mechanisms) if mechanisms else [*known]
        password = read_password(name, password_file)
        with _own_files(data, bootstrap, command_config, name, password, wanted):
            store.put(name, password, wanted)
    _show(name, "changed", wanted, as_json)


@app.add(name="list", epilog=examples("drumlin users list --config data/client.properties"))
def list_users(
    data: Data = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """List users, and the mechanisms by which they can log in."""
    with user_store(data, bootstrap, command_config) as store:
        users = store.users()
    rows = [
        {"user": name, "mechanisms": [*mechanisms], "iterations": [*mechanisms.values()]}
        for name, mechanisms in users.items()
    ]
    output.show_rows(rows, ("user", "mechanisms"), as_json=as_json, empty="there are no users")


@app.add(epilog=examples("drumlin users remove alice --config data/client.properties"))
def remove(
    names: Annotated[list[str], Argument("NAME…", help="Names of users.")],
    data: Data = None,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Remove users. Their ACLs stay: `drumlin acls remove --user NAME` removes those."""
    confirm(f"Remove {', '.join(names)}?", yes)
    with user_store(data, bootstrap, command_config) as store:
        known = store.users()

        def act(name: str) -> bool:
            if name not in known:
                return False
            store.remove(name, [*known[name]])
            return True

        for_each("user", names, act, done="removed", as_json=as_json, otherwise="is no user")


@contextlib.contextmanager
def _own_files(
    data: Path | None,
    bootstrap: str,
    command_config: Path | None,
    name: str,
    password: Secret,
    mechanisms: list[str],
) -> Iterator[None]:
    """Have the user's files follow the change of the password; say what becomes of them."""
    from drumlin.securing.client_files import MECHANISM, PROPERTIES
    from drumlin.securing.own_files import OwnFiles, with_new_password

    config = command_config if data is None else data / PROPERTIES
    if config is None or MECHANISM not in mechanisms:
        yield
        return
    address = bootstrap if data is None else None
    files = OwnFiles()
    try:
        with with_new_password(config, name, password, address) as files:
            yield
    finally:
        for each in files.changed:
            output.note(f"{each}: has the new password")
        for each in files.left:
            output.note(f"{each}: was not changed: edit the password if it is the former one")
        for each in files.beside:
            output.note(f"{each}: has the new password, which may not count")


def _known(store: UserStore, name: str) -> dict[str, int]:
    known = store.users().get(name)
    if known is None:
        raise output.Failure(f"there is no user {name}: drumlin users add makes one")
    return known


def _mechanisms(given: list[str] | None) -> list[str]:
    for each in given or ():
        if each not in NUMBERS:
            raise output.Failure(f"{each} is no mechanism here: {', '.join(NUMBERS)}", _EXIT_USAGE)
    return list(dict.fromkeys(given or NUMBERS))


def _show(name: str, done: str, mechanisms: list[str], as_json: bool) -> None:
    row = {"user": name, done: True, "mechanisms": mechanisms}
    output.show_changes([row], [f"{name}: {done}"], as_json)
