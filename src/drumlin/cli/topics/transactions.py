"""`drumlin transactions`: list, describe and abort transactions."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Final

from drumlin.cli.reach.cluster import Cluster, connect
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
from drumlin.cli.terminal.outcomes import fail, for_each, sentence
from drumlin.client.read.log_bounds import existing_partitions
from drumlin.client.read.offsets import list_offsets
from drumlin.client.topic_partition import TopicPartition
from drumlin.client.transactions import descriptions, open_producers, timeout_limit
from drumlin.client.transactions.descriptions import TransactionDescription
from drumlin.client.transactions.errors import UnknownTransaction
from drumlin.wire.error_codes import ErrorCode, KafkaError

app = Group(help="List and describe transactions; abort those whose producers are gone.")
_OPEN: Final = "Ongoing"
_EXIT_USAGE: Final = 2
_PRODUCER_ID_MAX: Final = 2**63 - 1

Ids = Annotated[list[str], Argument("ID…", help="One transactional id or more.")]


@app.add(
    "list",
    epilog=examples(
        "drumlin transactions list --open",
        "drumlin transactions list --state PrepareCommit",
        "drumlin transactions list --topic flights",
    ),
)
def list_(
    is_open: Annotated[
        bool, Option("--open", help="Only open transactions, with their start and duration.")
    ] = False,
    states: Annotated[
        list[str] | None,
        Option("--state", metavar="STATE", help="Only in this state; may be repeated."),
    ] = None,
    producer_ids: Annotated[
        list[int] | None,
        Option(
            "--producer-id",
            min=0,
            max=_PRODUCER_ID_MAX,
            help="Only of this producer; may be repeated.",
        ),
    ] = None,
    topics: Annotated[
        list[str] | None,
        Option("--topic", help="Transactions open in this topic, hanging ones too; repeatable."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """List transactional ids and their states, or open transactions of partitions."""
    if topics:
        if states or producer_ids:
            why = "--topic shows open transactions only: leave out --state and --producer-id"
            raise output.Failure(why, _EXIT_USAGE)
        with connect(bootstrap, command_config) as cluster:
            rows = [row for topic in topics for row in _open_in(cluster, topic)]
        shown = "topic partition producer_id epoch first_offset holds_up last_write_timestamp"
        columns = [*shown.split(), "transactional_id"]
        output.show_rows(rows, columns, as_json=as_json, empty="nothing is open there")
        return
    if states and is_open:
        raise output.Failure(f"--open is --state {_OPEN}: leave out one of them", _EXIT_USAGE)
    states = [_OPEN] if is_open else states or []
    columns = ["transactional_id", "state", "producer_id", "coordinator"]
    with connect(bootstrap, command_config) as cluster:
        listed = cluster.run(
            descriptions.list_transactions(cluster.connections, states, producer_ids or ())
        )
        rows = [each._asdict() for each in listed]
        if is_open:
            ids = [each.transactional_id for each in listed]
            described = cluster.run(descriptions.describe(cluster.connections, ids))
            rows = [_summary(each) for each in described.values() if each.state in states]
            columns = ["transactional_id", "state", "producer_id", "epoch", "start_timestamp"]
            columns += ["timeout_ms", "partition_count"]
    output.show_rows(rows, columns, as_json=as_json, empty="no transactions")


@app.add(
    epilog=examples(
        "drumlin transactions describe copy-7",
        "drumlin transactions describe copy-7 --json | jq '.[0].partitions'",
    )
)
def describe(
    ids: Ids,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show transactions, and in which partitions readers wait for them."""
    described, refusals = [], []
    with connect(bootstrap, command_config) as cluster:
        for name in ids:
            try:
                described.append(_describe(cluster, name))
            except KafkaError as error:
                refusals.append(sentence(error))
    if not as_json:
        _show(described)
    elif described:
        output.show_json(described)
    fail(refusals)


@app.add(
    epilog=examples(
        "drumlin transactions abort copy-7",
        "drumlin transactions abort --topic flights --partition 3 --producer-id 4711 --yes",
    )
)
def abort(
    ids: Annotated[list[str] | None, Argument("ID…", help="Transactional ids.")] = None,
    topic: Annotated[str | None, Option(help="The topic of a transaction that hangs,")] = None,
    partition: Annotated[int | None, Option(min=0, help="its partition,")] = None,
    producer_id: Annotated[
        int | None, Option(min=0, max=_PRODUCER_ID_MAX, help="and its producer.")
    ] = None,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Abort transactions by id, fencing their producers; or a hanging one, in one partition."""
    if ids and (topic, partition, producer_id) == (None, None, None):
        _abort_by_id(ids, yes, connect_to=(bootstrap, command_config), as_json=as_json)
    elif not ids and topic is not None and partition is not None and producer_id is not None:
        place = f"{topic}-{partition}"
        confirm(f"Abort the transaction of producer {producer_id} in {place}?", yes)
        with connect(bootstrap, command_config) as cluster:
            cluster.run(
                open_producers.abort_hanging(cluster.connections, topic, partition, producer_id)
            )
        rows = [{"topic": topic, "partition": partition, "producer_id": producer_id}]
        output.show_changes(rows, [f"{place}: aborted"], as_json)
    else:
        options = "transactional ids, or --topic, --partition and --producer-id"
        raise output.Failure(f"say what to abort: {options}", _EXIT_USAGE)


def _abort_by_id(ids: list[str], yes: bool, *, connect_to: Any, as_json: bool) -> None:
    confirm(f"Abort transactions of {', '.join(ids)}, and fence the producers?", yes)
    with connect(*connect_to) as cluster:

        def abort_one(transactional_id: str) -> bool:
            try:
                cluster.run(timeout_limit.abort_by_id(cluster.connections, transactional_id))
            except UnknownTransaction as error:
                raise KafkaError(ErrorCode.transactional_id_not_found, str(error)) from error
            return True

        for_each("transactional_id", ids, abort_one, done="aborted", as_json=as_json)


# -- what is shown -----------------------------------------------------------------------------


def _show(described: Iterable[dict[str, Any]]) -> None:
    for each in described:
        title = _title(each)
        rows = [{"transactional_id": each["transactional_id"], **row} for row in each["partitions"]]
        output.show_rows(
            rows,
            ("topic", "partition", "first_offset", "last_stable_offset", "holds_up"),
            as_json=False,
            title=title,
            plain_first="transactional_id",
            empty=title,
        )


def _summary(found: TransactionDescription) -> dict[str, Any]:
    return {
        "transactional_id": found.transactional_id,
        "state": found.state,
        "producer_id": found.producer_id,
        "epoch": found.epoch,
        "start_timestamp": _milliseconds(found.start_time),
        "timeout_ms": found.timeout_ms,
        "partition_count": len(found.partitions),
        "coordinator": found.coordinator,
    }


def _milliseconds(time: datetime | None) -> int | None:
    return None if time is None else round(time.timestamp() * 1000)


def _title(described: dict[str, Any]) -> str:
    begun = described["start_timestamp"]
    facts = [
        described["state"],
        f"producer {described['producer_id']} epoch {described['epoch']}",
        f"timeout {output.human_duration(described['timeout_ms'])}",
    ]
    if begun is not None:
        facts.insert(2, f"since {output.human_timestamp(begun)}")
    return f"{described['transactional_id']}  ({', '.join(facts)})"


def _describe(cluster: Cluster, transactional_id: str) -> dict[str, Any]:
    found = cluster.run(descriptions.describe_one(cluster.connections, transactional_id))
    if found is None:
        what = f"transaction {transactional_id!r}"
        raise KafkaError(ErrorCode.transactional_id_not_found, what)
    return {**_summary(found), "partitions": _partitions(cluster, found)}


def _open_in(cluster: Cluster, topic: str) -> list[dict[str, Any]]:
    """The open transactions of a topic; one without a transactional id hangs."""
    connections = cluster.connections
    places = [TopicPartition(topic, each) for each in cluster.run(connections.partitions(topic))]
    found = cluster.run(open_producers.open_producers(connections, places))
    return [
        {
            "topic": topic,
            "partition": each.partition,
            "producer_id": each.producer_id,
            "epoch": each.epoch,
            "first_offset": each.first_offset,
            "holds_up": each is open_here[0],
            "last_write_timestamp": _milliseconds(each.last_write),
            "transactional_id": cluster.run(open_producers.owner_of(connections, each)),
        }
        for open_here in found.values()
        for each in open_here
    ]


def _partitions(cluster: Cluster, found: TransactionDescription) -> list[dict[str, Any]]:
    """The partitions of a transaction, each with its first offset, and whether readers wait."""
    connections = cluster.connections
    places = cluster.run(existing_partitions(connections, sorted(found.partitions)))
    if not places:
        return []
    stable = cluster.run(
        list_offsets(connections, dict.fromkeys(places, "latest"), "read_committed")
    )
    producers = cluster.run(open_producers.open_producers(connections, places))
    first: dict[TopicPartition, int] = {
        place: each.first_offset
        for place, open_here in producers.items()
        for each in open_here
        if each.producer_id == found.producer_id
    }
    return [
        {
            "topic": place[0],
            "partition": place[1],
            "first_offset": first.get(place),
            "last_stable_offset": stable[place].offset,
            "holds_up": first.get(place) == stable[place].offset,
        }
        for place in places
    ]
