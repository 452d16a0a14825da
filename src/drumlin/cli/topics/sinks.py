"""`drumlin sinks`: the decisions and open transactions of Spark's exactly-once sinks.

Uses the sink's protocol: an operator acts as another driver, and fences the others.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from drumlin.cli.reach.command_config import CommandConfig, settings_of
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
from drumlin.peer.options import PeerOptions

if TYPE_CHECKING:  # brings Arrow along
    from drumlin.client.client import Client
    from drumlin.client.places import OffsetSpec
    from drumlin.client.topic_partition import TopicPartition
    from drumlin.client.transactions.descriptions import TransactionDescription
    from drumlin.spark.writing.protocol.sink_errors import StateLost
    from drumlin.spark.writing.protocol.state import SinkState
    from drumlin.spark.writing.protocol.winners import Fates

app = Group(help="Show decisions and open transactions of Spark's exactly-once sinks.")
_OPTIONS: Final = PeerOptions(client_id="drumlin-cli")
_TOPIC: Final = "drumlin-sinks"

Sink = Annotated[str, Argument("SINK", help="The sink's name, as `drumlin sinks list` shows it.")]
DecisionTopic = Annotated[
    str, Option("--decision-topic", help="The sinks' option `decisionTopic`.")
]


@app.add("list", epilog=examples("drumlin sinks list", "drumlin sinks list --open"))
def list_(
    is_open: Annotated[bool, Option("--open", help="Only those with open transactions.")] = False,
    decision_topic: DecisionTopic = _TOPIC,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """List sinks: the last decided batch, and the open transactions."""
    with _connected(bootstrap, command_config) as client:
        states, opened = _states(client, decision_topic), _open(client)
    sinks = sorted(opened) if is_open else sorted(states.keys() | opened.keys())
    rows = [_summary(each, states.get(each), opened.get(each, [])) for each in sinks]
    columns = ("sink", "batch", "state", "open_count", "open_since", "run", "query")
    output.show_rows(rows, columns, as_json=as_json, empty="no sinks")
    for each in sinks:
        state = states.get(each)
        if isinstance(state, Exception):
            output.note(f"drumlin: {state}")


@app.add(epilog=examples("drumlin sinks describe 5b2c6f3e-...", "drumlin sinks list --json"))
def describe(
    sink: Sink,
    decision_topic: DecisionTopic = _TOPIC,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show a sink's last batch, and in which partitions readers wait for open transactions."""
    with _connected(bootstrap, command_config) as client:
        state, opened = _known(client, sink, decision_topic)
        rows = _partitions(client, state, opened)
    summary = _summary(sink, state, opened)
    content, ends = (None, "") if state is None else (state.content, state.ends)
    summary |= {"rows": None if content is None else content.rows, "ends": ends}
    if as_json:
        output.show_json({**summary, "partitions": rows})
        return
    what = "" if content is None else f", {content.rows} rows"
    what += f" up to {ends}" if ends else ""
    title = f"{sink}  (batch {summary['batch']} {summary['state']}{what}, {len(opened)} open)"
    columns = ("transactional_id", "since", "topic", "partition", "last_stable_offset", "is_winner")
    output.show_rows(rows, columns, as_json=False, title=title, empty=title)


@app.add(epilog=examples("drumlin sinks abort 5b2c6f3e-... --yes"))
def abort(
    sink: Sink,
    yes: Yes = False,
    decision_topic: DecisionTopic = _TOPIC,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Commit a sink's decided transactions, abort its others. A running query fails."""
    from drumlin.spark.writing.protocol.abort_steps import abort_sink
    from drumlin.spark.writing.protocol.messages import SinkSettings

    with _connected(bootstrap, command_config) as client:
        _known(client, sink, decision_topic)
        confirm(
            f"Abort the open transactions of sink {sink}? A running query that writes to it fails.",
            yes,
        )
        fates, losers = _run(client, abort_sink(sink, SinkSettings(decision_topic)))
    rows = _ended(fates, losers)
    lines = [f"{row['transactional_id']}: {row['ended']}" for row in rows]
    output.show_changes(rows, lines or [f"{sink}: nothing is open"], as_json)


@app.add(epilog=examples("drumlin sinks forget copy --yes"))
def forget(
    sink: Sink,
    yes: Yes = False,
    decision_topic: DecisionTopic = _TOPIC,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Commit decided transactions, abort others, forget the sink: its next batch is its first."""
    from drumlin.spark.writing.protocol import names
    from drumlin.spark.writing.protocol.abort_steps import forget as forgetting
    from drumlin.spark.writing.protocol.messages import SinkSettings

    names.check_sink(sink)
    confirm(
        f"Forget what sink {sink} has decided? It is committed first, and all else it has open is "
        "aborted. A query that writes now fails, and a batch that runs again is written again.",
        yes,
    )
    with _connected(bootstrap, command_config) as client:
        _check_topic(client, sink, decision_topic)
        was_known = sink in _states(client, decision_topic, may_be_missing=True)
        fates, losers = _run(client, forgetting(sink, SinkSettings(decision_topic)))
    ended = _ended(fates, losers)
    outcome = "forgotten" if was_known else "it had no decisions; its next batch is its first"
    shown = [f"{each['transactional_id']}: {each['ended']}" for each in ended]
    row = {"sink": sink, "was_known": was_known, "transactions": ended}
    output.show_changes([row], [*shown, f"{sink}: {outcome}"], as_json)


def _ended(fates: Fates, losers: Sequence[str]) -> list[dict[str, str]]:
    """The outcome of transactions; "lost" means decided, but not known to be committed."""
    names = [(each.transactional_id, "committed") for each in fates.committed]
    names += [(each.transactional_id, "lost") for each in fates.lost]
    names += [(each, "aborted") for each in losers]
    return [{"transactional_id": name, "ended": ended} for name, ended in names]


# -- asking ------------------------------------------------------------------------------------


@contextlib.contextmanager
def _connected(bootstrap: str, command_config: Path | None) -> Iterator[Client]:
    from drumlin.client.client import Client
    from drumlin.client.errors import ClientError

    options = dataclasses.replace(_OPTIONS, **settings_of(command_config))
    with Client(bootstrap, options) as client:
        try:
            client.refresh()
            yield client
        except ClientError as error:
            raise output.Failure(str(error)) from error


def _run(client: Client, steps: Any) -> Any:
    from drumlin.spark.writing.performer import Performer
    from drumlin.spark.writing.protocol.sink_errors import SinkError

    performer = Performer(client)
    try:
        return performer.run(steps)
    except (SinkError, ValueError) as error:
        raise output.Failure(str(error)) from error
    finally:
        performer.close()


def _known(
    client: Client, sink: str, topic: str
) -> tuple[SinkState | None, list[TransactionDescription]]:
    """A sink's last decision, and its open transactions.

    Raises:
        output.Failure: there is no such sink, or its decision cannot be read.
    """
    state, opened = _states(client, topic).get(sink), _open(client).get(sink, [])
    if isinstance(state, Exception):
        raise output.Failure(str(state)) from state
    if state is None:
        _check_topic(client, sink, topic)
        if not opened:
            why = f"topic {topic!r} has no decision of it, and it has no transaction open"
            raise output.Failure(f"there is no sink {sink!r}: {why}")
    return state, opened


def _check_topic(client: Client, sink: str, topic: str) -> None:
    """
    Raises:
        output.Failure: the sink's decisions are in another topic, not in this one.
    """
    from drumlin.spark.writing.protocol import names

    topics = sorted({each for each, _ in client.committed_offsets(names.group_of(sink))})
    if topics and topic not in topics:
        why = f"the decisions of sink {sink!r} are in topic {topics[0]!r}"
        raise output.Failure(f"{why}: give --decision-topic {topics[0]}")


def _states(
    client: Client, topic: str, *, may_be_missing: bool = False
) -> dict[str, SinkState | StateLost]:
    """The last decision of each sink, or why it cannot be read.

    Records that cannot be a sink's are skipped. The first sink creates the default topic.

    Raises:
        output.Failure: there is no such topic.
    """
    from drumlin.client.errors import UnknownTopic
    from drumlin.spark.writing.protocol.names import is_sink
    from drumlin.spark.writing.protocol.sink_errors import StateLost
    from drumlin.spark.writing.protocol.state import SinkState

    last: dict[str, bytes | None] = {}
    try:
        for records in client.read_records(topic, [0], isolation="read_committed"):
            for each in records:
                last[(each.key or b"").decode(errors="replace")] = each.value
    except UnknownTopic as error:
        if topic == _TOPIC or may_be_missing:
            return {}
        raise output.Failure(f"there is no topic {topic!r}") from error
    states: dict[str, SinkState | StateLost] = {}
    for sink, value in last.items():
        if value is None or not is_sink(sink):
            continue
        try:
            states[sink] = SinkState.decode(sink, value)
        except StateLost as error:
            states[sink] = error
    return states


def _open(client: Client) -> dict[str, list[TransactionDescription]]:
    """Open transactions of tasks, by sink; the oldest first."""
    from drumlin.spark.writing.protocol.names import parse_task_id
    from drumlin.spark.writing.protocol.shown import open_by_sink

    ids = [each.transactional_id for each in client.list_transactions(states=("Ongoing",))]
    described = client.describe_transactions([each for each in ids if parse_task_id(each)])
    return open_by_sink(described.values())


def _summary(
    sink: str, found: SinkState | StateLost | None, opened: list[TransactionDescription]
) -> dict[str, Any]:
    from drumlin.spark.writing.protocol.shown import word_of

    state = None if isinstance(found, Exception) else found
    return {
        "sink": sink,
        "batch": state.batch if state is not None else None,
        "state": "unreadable" if isinstance(found, Exception) else word_of(found),
        "open_count": len(opened),
        "open_since": opened[0].start_ms if opened else None,
        "run": state.run if state is not None else "",
        "query": state.query if state is not None else "",
    }


def _partitions(
    client: Client, state: SinkState | None, opened: list[TransactionDescription]
) -> list[dict[str, Any]]:
    """The partitions in which readers wait for an open transaction, or will once they reach it."""
    winning = {each.transactional_id for each in state.winners} if state is not None else set()
    stable = _stable_offsets(client, {place for each in opened for place in each.partitions})
    return [
        {
            "transactional_id": each.transactional_id,
            "since": each.start_ms,
            "topic": place[0],
            "partition": place[1],
            "last_stable_offset": stable.get(place),
            "is_winner": each.transactional_id in winning,
        }
        for each in opened
        for place in each.partitions
    ]


def _stable_offsets(
    client: Client, places: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """The last stable offsets; deleted partitions, which coordinators may still list, have none."""
    from drumlin import lowlevel

    if not places:
        return {}
    topics = lowlevel.look_up_topics(client, {topic for topic, _ in places}).found
    there = {(each.name, part.index) for each in topics.values() for part in each.partitions}
    known = sorted(each for each in places if each in there)
    requested: dict[TopicPartition, OffsetSpec] = dict.fromkeys(known, "latest")
    found = client.list_offsets(requested, isolation="read_committed") if requested else {}
    return {place: each.offset for place, each in found.items()}
