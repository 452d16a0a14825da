"""The rights that docs/security.md lists for tasks: no more are needed, and none less.

Without one of them a task fails with a sentence that names it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import drumlin
from drumlin.client.client import Client
from drumlin.security import Plain, Security
from drumlin.state import processor
from rig.data.secured_listeners import PASSWORD, Secured
from rig.documents.task_rights import listed, naming, placed
from rig.servers.rights import CREATE, DESCRIBE_CONFIGS, Right, granted
from rig.servers.secured_kafka import SecuredKafka

pytestmark = pytest.mark.kafka

ALICE = Security(None, Plain("alice", PASSWORD))
ROWS = {"key": ["a"], "value": ["b"]}
#: What a name of the document is in one test.
Names = dict[str, str]


def read(client: Client, names: Names) -> None:
    assert client.read(names["IN"]).num_rows == 1


def read_in_group(client: Client, names: Names) -> None:
    with client.consumer(names["IN"], group=names["GROUP"]) as consumer:
        batch = None
        while batch is None:
            batch = consumer.poll(timeout_ms=10_000)
        consumer.commit()


def snapshot(client: Client, names: Names) -> None:
    assert client.snapshot(names["IN"]).num_rows == 1


def write(client: Client, names: Names) -> None:
    client.append(ROWS, names["OUT"])


def write_in_transaction(client: Client, names: Names) -> None:
    with client.transaction(names["ID"]) as transaction:
        transaction.append(ROWS, names["OUT"])


def commit_offsets(client: Client, names: Names) -> None:
    with client.transaction(names["ID"]) as transaction:
        transaction.append(ROWS, names["OUT"])
        transaction.send_offsets({(names["IN"], 0): 1}, names["GROUP"])


def keep_state(client: Client, names: Names) -> None:
    with processor(
        names["IN"],
        group=names["GROUP"],
        state=names["STATE"],
        bootstrap=client.bootstrap,
        security=ALICE,
    ) as counts:
        for batch in counts:
            for key in batch.column("key").to_pylist():
                counts.state[key] = b"1"
                counts.send(names["OUT"], b"1", key)
            break


TASKS: dict[str, Callable[[Client, Names], None]] = {
    "read a topic": read,
    "read as a member": read_in_group,
    "the table in a topic": snapshot,
    "write:": write,
    "write in a transaction": write_in_transaction,
    "write and commit": commit_offsets,
    "keyed state": keep_state,
}


@contextmanager
def prepared(kafka: Secured) -> Iterator[tuple[Client, Names]]:
    """The administrator, and names with their topics, of which one has a record."""
    unique = uuid.uuid4().hex[:8]
    names = {each: f"{each.lower()}-{unique}" for each in ("IN", "OUT", "GROUP", "ID", "STATE")}
    names["CHANGELOG"] = f"{names['GROUP']}-{names['STATE']}-changelog"
    with drumlin.connect(f"127.0.0.1:{kafka.port}") as administrator:
        administrator.create_topic(names["IN"], 1, configs={"cleanup.policy": "compact"})
        administrator.create_topic(names["OUT"], 1)
        administrator.append(ROWS, names["IN"])
        yield administrator, names


def needed(task: str, kafka: Secured) -> list[Right]:
    """Those of the document; a Drumlin tells by itself how far it has cleaned."""
    rights = listed(task)
    if task == "the table in a topic" and not isinstance(kafka, SecuredKafka):
        rights = [each for each in rights if each.operation != DESCRIBE_CONFIGS]
    return rights


def run(kafka: Secured, task: str, names: Names) -> None:
    with drumlin.connect(kafka.addresses["login"], security=ALICE) as client:
        TASKS[task](client, names)


@pytest.mark.parametrize("task", TASKS)
def test_a_task_needs_what_is_listed_and_tells_what_is_missing(secured: Secured, task: str) -> None:
    rights = needed(task, secured)
    with prepared(secured) as (administrator, names):
        mine = [placed(each, names) for each in rights]
        creating = [each for each in mine if each.operation == CREATE]
        for each in creating:
            _lacks(secured, task, names, mine, each)
        with granted(secured, *mine):
            run(secured, task, names)
        for each in set(mine) - set(creating):
            administrator.append(ROWS, names["IN"])
            _lacks(secured, task, names, mine, each)


def _lacks(kafka: Secured, task: str, names: Names, mine: list[Right], missing: Right) -> None:
    others = [each for each in mine if each != missing]
    with granted(kafka, *others), pytest.raises(drumlin.ClientError, match=naming(missing)):
        run(kafka, task, names)
