"""Event sourcing: a service of accounts whose state is rebuilt from its log.

A command is decided on the state; what happened is an event. Two topics hold all there is to know:
`account-events` has every event, for ever; `accounts`, compacted, has each account after its last
one. Both are written in one transaction. What the service keeps on disk is a copy that answers
quickly: if it is behind, it catches up, and if it is gone, it is the snapshot of `accounts` again.

    $ printf 'deposit ada 500\\nwithdraw ada 120\\n' | python accounts.py --disk accounts.db

One process serves at a time. Another one that starts fences the first, whose next command fails.
After an error of the client the service is to be started again: the log knows what has happened.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import drumlin
from drumlin import lowlevel
from drumlin.security import read_properties

EVENTS, ACCOUNTS = "account-events", "accounts"
PARTITIONS = 4
_TABLES = """
CREATE TABLE IF NOT EXISTS accounts (name TEXT PRIMARY KEY, cents INTEGER, version INTEGER);
CREATE TABLE IF NOT EXISTS positions (partition INTEGER PRIMARY KEY, next_offset INTEGER);
CREATE TABLE IF NOT EXISTS topics (topic_id TEXT);
"""
#: An account may be in two partitions, if the topic was given more: its version says what is later.
_KEEP = """
INSERT INTO accounts VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE
SET cents = excluded.cents, version = excluded.version WHERE excluded.version > accounts.version
"""
#: What the copy can hold.
_CENTS_MAX = 2**63 - 1
_DIGITS_MAX = 19


@dataclass(frozen=True)
class Command:
    """What somebody wants: a deposit or a withdrawal."""

    name: str
    kind: str
    cents: int


@dataclass(frozen=True)
class Event:
    """What happened to an account."""

    cents: int


@dataclass(frozen=True)
class Account:
    """An account after its first `version` events."""

    cents: int = 0
    version: int = 0


class Refused(Exception):
    """A command has no effect, and the message says why."""


def decide(account: Account, command: Command) -> Event:
    """
    Raises:
        Refused: there is nothing to be done, or not enough money.
    """
    if command.cents <= 0:
        raise Refused("an amount must be positive")
    if command.kind == "deposit":
        if account.cents + command.cents > _CENTS_MAX:
            raise Refused("no account holds that much")
        return Event(command.cents)
    if command.kind != "withdraw":
        raise Refused(f"there is no command {command.kind!r}")
    if command.cents > account.cents:
        raise Refused(f"{command.name} has {account.cents} only")
    return Event(-command.cents)


def evolve(account: Account, event: Event) -> Account:
    """The account after the event."""
    return Account(account.cents + event.cents, account.version + 1)


class Service:
    """Takes commands, and knows all accounts.

    Args:
        disk: the file of the copy, which may be missing, or old.
        events, accounts: the two topics, which are made if they do not exist.
    """

    def __init__(
        self, client: drumlin.Client, disk: Path, events: str = EVENTS, accounts: str = ACCOUNTS
    ) -> None:
        self._client, self._events, self._accounts = client, events, accounts
        client.create_topic(events, PARTITIONS, configs={"retention.ms": -1}, if_not_exists=True)
        compacted = {"cleanup.policy": "compact"}
        client.create_topic(accounts, PARTITIONS, configs=compacted, if_not_exists=True)
        # From here on no earlier process of the service can write, and nothing of one is open.
        with client.transaction(f"service-of-{accounts}") as self._last:
            pass
        self._disk = sqlite3.connect(disk)
        self._disk.executescript(_TABLES)
        self._catch_up()

    def close(self) -> None:
        self._disk.close()

    def account(self, name: str) -> Account:
        """One that never had an event is empty."""
        query = "SELECT cents, version FROM accounts WHERE name = ?"
        found = self._disk.execute(query, [name]).fetchone()
        return Account(*found) if found else Account()

    def accounts(self) -> dict[str, Account]:
        """All that had one."""
        found = self._disk.execute("SELECT name, cents, version FROM accounts").fetchall()
        return {name: Account(*state) for name, *state in found}

    def execute(self, command: Command) -> Account:
        """The account after the command; when it returns, the log has it.

        Raises:
            Refused: nothing has happened.
            ClientError: it is not known here what happened. Start the service again.
        """
        account = self.account(command.name)
        event = decide(account, command)
        account = evolve(account, event)
        with lowlevel.following(self._last) as transaction:
            transaction.append([_record(command.name, event)], self._events)
            written = transaction.append([_record(command.name, account)], self._accounts)
        self._last = transaction
        ends = {partition: each.end_offset for partition, each in written.partitions.items()}
        self._keep({command.name: account}, ends)
        return account

    def _catch_up(self) -> None:
        """Bring the copy to where the log is; a copy of another topic is none."""
        topic_id = self._client.describe_topics([self._accounts])[self._accounts].topic_id or ""
        if self._disk.execute("SELECT topic_id FROM topics").fetchall() != [(topic_id,)]:
            with self._disk:
                for table in ("accounts", "positions", "topics"):
                    self._disk.execute(f"DELETE FROM {table}")  # noqa: S608 - names of our own
                self._disk.execute("INSERT INTO topics VALUES (?)", (topic_id,))
        ends = self._client.offsets(self._accounts, isolation="read_committed")
        reached = dict(self._disk.execute("SELECT partition, next_offset FROM positions"))
        if not reached:
            table = self._client.snapshot(self._accounts, at=ends, decode="utf8")
        else:
            # No account is ever deleted: what was compacted away meanwhile has a later record.
            table = self._client.read(
                self._accounts,
                start=dict.fromkeys(ends, 0) | reached,
                end=ends,
                isolation="read_committed",
                decode="utf8",
            )
        rows = zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)
        self._keep({name: Account(**json.loads(value)) for name, value in rows}, ends)

    def _keep(self, accounts: dict[str, Account], ends: dict[int, int]) -> None:
        """Accounts and how far they are from the log, in one transaction of the copy."""
        rows = [(name, each.cents, each.version) for name, each in accounts.items()]
        with self._disk:
            self._disk.executemany(_KEEP, rows)
            self._disk.executemany("REPLACE INTO positions VALUES (?, ?)", ends.items())


def _record(name: str, what: Event | Account) -> dict[str, str]:
    return {"key": name, "value": json.dumps(asdict(what))}


def _words(line: str) -> tuple[str, str, str]:
    """
    Raises:
        Refused: this is no command.
    """
    words = line.split()
    if len(words) != 3 or not words[2].isdecimal() or len(words[2]) > _DIGITS_MAX:
        raise Refused("a command is a word, a name and a number of cents")
    return words[0], words[1], words[2]


def main() -> None:
    parser = argparse.ArgumentParser(description="Takes commands, line by line.")
    parser.add_argument("--brokers", default="127.0.0.1:9092", help="host:port,...")
    parser.add_argument("--command-config", help="properties of Kafka's clients: TLS, login")
    parser.add_argument("--disk", type=Path, required=True, help="the file of the copy")
    told = parser.parse_args()
    security = read_properties(told.command_config) if told.command_config else None
    with drumlin.connect(told.brokers, security=security) as client:
        service = Service(client, told.disk)
        for line in sys.stdin:
            try:
                kind, name, cents = _words(line)
                account = service.execute(Command(name, kind, int(cents)))
                sys.stdout.write(f"{name} has {account.cents} after {account.version} events\n")
            except Refused as reason:
                sys.stdout.write(f"refused: {reason}\n")
        service.close()


if __name__ == "__main__":
    main()
