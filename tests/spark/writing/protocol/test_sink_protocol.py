"""The sink's protocol on real brokers, task by task, without Spark."""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from types import SimpleNamespace
from zlib import crc32

import pyarrow as pa
import pytest

import drumlin
from drumlin import lowlevel
from drumlin.client.admin.committed_offsets import OffsetAndMetadata
from drumlin.client.client import Client
from drumlin.spark.writing import performer
from drumlin.spark.writing.entry import (
    AlreadyDecided,
    TaskWrite,
    abort_batch,
    abort_run,
    begin_task,
    commit_batch,
)
from drumlin.spark.writing.performer import Performer
from drumlin.spark.writing.protocol import driver, names
from drumlin.spark.writing.protocol.abort_steps import forget
from drumlin.spark.writing.protocol.messages import (
    SinkSettings,
    SourceOffsets,
    TaskIdentity,
    TaskMessage,
)
from drumlin.spark.writing.protocol.requests import FetchAnchor, FindRecord
from drumlin.spark.writing.protocol.sink_errors import (
    NotDecided,
    NotRepairable,
    RequestFailed,
    StateLost,
    Superseded,
    WinnersLost,
)
from drumlin.spark.writing.protocol.state import Anchor
from drumlin.spark.writing.protocol.transactions import Opened
from rig.brokers.drumlin_server import DrumlinServer
from rig.waiting import wait_until

SETTINGS = SinkSettings()


@pytest.fixture(scope="module", params=["drumlin", pytest.param("kafka", marks=pytest.mark.kafka)])
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    with drumlin.connect(request.getfixturevalue(f"{request.param}_address")) as client:
        yield client


@pytest.fixture
def topic(client: Client) -> Iterator[str]:
    name = f"sink-{uuid.uuid4().hex[:12]}"
    client.create_topic(name, 3)
    yield name
    client.delete_topic(name)


@pytest.fixture
def sink() -> str:
    return f"query-{uuid.uuid4().hex[:12]}"


def identity(sink: str, batch: int, partition: int, run: str = "run1", **more: int) -> TaskIdentity:
    return TaskIdentity(sink, sink, batch, run, partition, **more)


def write(
    client: Client, topic: str, who: TaskIdentity, *values: str, checksum: str | None = None
) -> TaskMessage:
    """What a task does; `values` are its rows."""
    begun = begin_task(client, who, SETTINGS)
    checksum = checksum or f"{sum(crc32(each.encode()) for each in values):x}"
    if isinstance(begun, AlreadyDecided):
        return begun.counted(len(values), checksum)
    assert isinstance(begun, TaskWrite)
    if values:
        begun.transaction.append(pa.table({"value": list(values)}), topic)
    return begun.finish(len(values), checksum)


def committed(client: Client, topic: str) -> list[str]:
    table = client.read(topic, isolation="read_committed")
    return sorted(each.as_py().decode() for each in table["value"])


def await_rows(client: Client, topic: str, *values: str) -> None:
    wait_until(lambda: committed(client, topic) == sorted(values), f"{values} to be read")


def is_held_up(client: Client, topic: str) -> bool:
    """Whether a transaction is open in the topic."""
    ends = client.offsets(topic, "latest")
    return client.offsets(topic, "latest", isolation="read_committed") != ends


def test_batches_follow_one_another(client: Client, topic: str, sink: str) -> None:
    for batch in range(3):
        messages = [write(client, topic, identity(sink, batch, p), f"{batch}-{p}") for p in (0, 1)]
        messages.append(write(client, topic, identity(sink, batch, 2)))  # it has no rows
        assert committed(client, topic) == [f"{b}-{p}" for b in range(batch) for p in (0, 1)]
        report = commit_batch(client, SETTINGS, messages, batch)
        assert (report.rows, report.transactions, report.is_marked_done) == (2, 2, True)
        await_rows(client, topic, *(f"{b}-{p}" for b in range(batch + 1) for p in (0, 1)))
    assert not is_held_up(client, topic)
    used = [
        each.transactional_id
        for each in client.list_transactions()
        if each.transactional_id.startswith(f"drumlin.{sink}.run1.")
    ]
    assert len(used) == 2, "ids are used again"


def driver_epoch(client: Client, sink: str) -> int:
    driver_id = names.driver_id(sink)
    return client.describe_transactions([driver_id])[driver_id].epoch


def test_who_has_committed_a_batch_needs_no_new_fence_for_the_next(
    client: Client, topic: str, sink: str
) -> None:
    def commit(by: Client, batch: int) -> int:
        message = write(client, topic, identity(sink, batch, 0), str(batch))
        assert commit_batch(by, SETTINGS, [message], batch).is_marked_done
        return driver_epoch(client, sink)

    first = commit(client, 0)
    assert commit(client, 1) == first
    with drumlin.connect(client.bootstrap) as other:
        assert commit(other, 2) == first + 1
    assert commit(client, 3) == first + 2, "it was fenced"
    abort_run(client, SETTINGS, identity(sink, 3, 0))
    assert commit(client, 4) == first + 4
    assert commit(client, 5) == first + 4
    await_rows(client, topic, *map(str, range(6)))


def test_a_write_for_once_leaves_nothing_behind(client: Client, topic: str, sink: str) -> None:
    settings = SinkSettings(is_for_once=True)
    who = TaskIdentity(sink, "", 0, "run1", 0)
    report = commit_batch(client, settings, [write(client, topic, who, "a")], 0)
    assert report.is_marked_done
    await_rows(client, topic, "a")
    decisions = client.read(settings.decision_topic, isolation="read_committed").to_pylist()
    assert [each["value"] for each in decisions if each["key"] == sink.encode()][-1] is None


def test_a_decided_batch_is_not_written_again(client: Client, topic: str, sink: str) -> None:
    first = write(client, topic, identity(sink, 0, 0), "a")
    commit_batch(client, SETTINGS, [first], 0)
    again = write(client, topic, identity(sink, 0, 0, "run2"), "a")
    assert again.found_decided
    assert commit_batch(client, SETTINGS, [again], 0).was_decided
    await_rows(client, topic, "a")


def test_losers_and_zombies_are_aborted(client: Client, topic: str, sink: str) -> None:
    write(client, topic, identity(sink, 0, 0, "killed"), "zombie")
    loser = write(client, topic, identity(sink, 0, 0), "loser")
    winner = write(client, topic, identity(sink, 0, 0, attempt=1), "winner")
    assert loser.opened is not None
    report = commit_batch(client, SETTINGS, [winner], 0)
    assert report.aborted == 2
    await_rows(client, topic, "winner")
    wait_until(lambda: not is_held_up(client, topic), "aborts to be marked")


def test_a_failed_job_is_aborted(client: Client, topic: str, sink: str) -> None:
    message = write(client, topic, identity(sink, 0, 0), "a")
    assert abort_batch(client, SETTINGS, [message, None], 0) == 1
    wait_until(lambda: not is_held_up(client, topic), "the abort to be marked")
    with pytest.raises(NotDecided):
        commit_batch(client, SETTINGS, [message], 0)
    again = write(client, topic, identity(sink, 0, 0, "run2"), "a")
    commit_batch(client, SETTINGS, [again], 0)
    await_rows(client, topic, "a")


def test_what_was_aborted_after_its_commit_is_not_decided_later(
    client: Client, topic: str, sink: str
) -> None:
    message = write(client, topic, identity(sink, 0, 0), "a")
    assert abort_batch(client, SETTINGS, [message], 0) == 1
    with pytest.raises(NotDecided, match="aborted meanwhile"):
        commit_batch(client, SETTINGS, [message], 0)


def test_abort_leaves_what_is_decided(client: Client, topic: str, sink: str) -> None:
    message = write(client, topic, identity(sink, 0, 0), "a")
    commit_batch(client, SETTINGS, [message], 0)
    assert abort_batch(client, SETTINGS, [message], 0) == 0
    await_rows(client, topic, "a")


def test_a_broker_may_allow_short_transactions_only(tmp_path: Path) -> None:
    server = DrumlinServer(tmp_path, {"transaction.max.timeout.ms": "20000"})
    try:
        server.start()
        with drumlin.connect(server.address) as client:
            client.create_topic("t", 1)
            message = write(client, "t", identity("s", 0, 0), "a")
            assert commit_batch(client, SETTINGS, [message], 0).is_marked_done
            await_rows(client, "t", "a")
    finally:
        server.close()


def test_who_is_behind_is_told(client: Client, topic: str, sink: str) -> None:
    behind = write(client, topic, identity(sink, 0, 0, "zombie"), "a")
    for batch in (0, 1):
        message = write(client, topic, identity(sink, batch, 0), str(batch))
        commit_batch(client, SETTINGS, [message], batch)
    with pytest.raises(Superseded, match="another run"):
        commit_batch(client, SETTINGS, [behind], 0)
    with pytest.raises(Superseded, match="another run"):
        begin_task(client, identity(sink, 0, 0, "zombie"), SETTINGS)
    await_rows(client, topic, "0", "1")


def test_a_sink_is_one_query_s(client: Client, topic: str, sink: str) -> None:
    commit_batch(client, SETTINGS, [write(client, topic, identity(sink, 0, 0), "a")], 0)
    other = TaskIdentity(sink, "other query", 0, "run", 0)
    with pytest.raises(Superseded, match="belongs to query"):
        begin_task(client, other, SETTINGS)


def test_a_sink_that_begins_late_has_to_say_so(client: Client, topic: str, sink: str) -> None:
    message = write(client, topic, identity(sink, 7, 0), "a")
    with pytest.raises(StateLost, match="sinkIsNew"):
        commit_batch(client, SETTINGS, [message], 7)
    message = write(client, topic, identity(sink, 7, 0), "a")
    commit_batch(client, SinkSettings(may_begin_late=True), [message], 7)
    await_rows(client, topic, "a")


def test_offsets_of_the_source_go_with_the_decision(client: Client, topic: str, sink: str) -> None:
    message = write(client, topic, identity(sink, 0, 0), "a")
    source = SourceOffsets(f"{sink}-readers", {(topic, 2): 42})
    commit_batch(client, SETTINGS, [message], 0, source)
    found = client.committed_offsets(f"{sink}-readers", require_stable=True)
    assert found[topic, 2].offset == 42


def test_ten_thousand_tasks_are_one_decision(client: Client, sink: str) -> None:
    from drumlin.spark.writing.performer import Performer
    from drumlin.spark.writing.protocol.decisions import last_state
    from drumlin.spark.writing.protocol.driver import write as write_state
    from drumlin.spark.writing.protocol.requests import InitDriver, PrepareTopic, Steps
    from drumlin.spark.writing.protocol.state import SinkState
    from drumlin.spark.writing.protocol.transactions import Winner

    won = tuple(
        Winner("", p, f"drumlin.{sink}.{uuid.uuid4()}.{p:012x}.0", p, 0, p, uuid.uuid4().hex)
        for p in range(10_000)
    )
    state = SinkState(sink, 0, "run", is_done=False, winners=won)

    def steps() -> Steps[SinkState | None]:
        yield PrepareTopic(SETTINGS.decision_topic)
        driver = yield InitDriver(names.driver_id(sink))
        yield from write_state(driver, sink, SETTINGS, state)
        yield InitDriver(names.driver_id(sink))
        return (yield from last_state(sink, SETTINGS))

    assert Performer(client).run(steps()) == state


def dies_after_the_decision(
    client: Client, messages: list[TaskMessage], monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object) -> object:
        raise RequestFailed("the driver is killed")

    with monkeypatch.context() as patch:
        patch.setattr(driver, "_complete", dies)
        with pytest.raises(RequestFailed):
            commit_batch(client, SETTINGS, messages, 0)


def lost_after_the_decision(
    client: Client, topic: str, sink: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batch 0 is decided with two tasks; one is committed, the other times out."""
    messages = [write(client, topic, identity(sink, 0, p), f"{p}") for p in (0, 1)]
    dies_after_the_decision(client, messages, monkeypatch)
    first, second = (message.opened for message in messages)
    assert first is not None
    assert second is not None
    lowlevel.end_transaction(client, first, commit=True)  # type: ignore[arg-type]
    client.abort_transaction(second.transactional_id)  # as a time-out does
    await_rows(client, topic, "0")


def test_what_killed_tasks_have_left_is_aborted(client: Client, topic: str, sink: str) -> None:
    left = write(client, topic, identity(sink, 0, 0), "a")
    write(client, topic, identity(sink, 0, 0, "another run"), "b")
    assert abort_run(client, SETTINGS, identity(sink, 0, 1)) == 1
    # A job that has come between is refused: what it was found with is aborted.
    with pytest.raises(NotDecided, match="aborted meanwhile"):
        commit_batch(client, SETTINGS, [left], 0)
    again = write(client, topic, identity(sink, 0, 0), "a")
    assert commit_batch(client, SETTINGS, [again], 0).is_marked_done
    await_rows(client, topic, "a")


def test_what_is_decided_is_no_leftover(
    client: Client, topic: str, sink: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = write(client, topic, identity(sink, 0, 0), "a")
    dies_after_the_decision(client, [message], monkeypatch)
    write(client, topic, identity(sink, 1, 0), "left")
    assert abort_run(client, SETTINGS, identity(sink, 0, 0)) == 1
    again = write(client, topic, identity(sink, 0, 0, "run2"), "a")
    assert commit_batch(client, SETTINGS, [again], 0).was_decided
    await_rows(client, topic, "a")


def test_lost_rows_are_written_again(
    client: Client, topic: str, sink: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost_after_the_decision(client, topic, sink, monkeypatch)
    messages = [write(client, topic, identity(sink, 0, p, "run2"), f"{p}") for p in (0, 1)]
    assert [message.found_decided for message in messages] == [True, False]
    assert commit_batch(client, SETTINGS, messages, 0).repaired == 1
    await_rows(client, topic, "0", "1")


def test_the_next_batch_is_not_decided_while_rows_are_lost(
    client: Client, topic: str, sink: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They could not be written any more: only the same batch may bring them."""
    lost_after_the_decision(client, topic, sink, monkeypatch)
    messages = [write(client, topic, identity(sink, 1, 0), "next")]
    with pytest.raises(WinnersLost):
        commit_batch(client, SETTINGS, messages, 1)
    await_rows(client, topic, "0")


def test_a_committed_winner_whose_id_was_taken_is_not_taken_for_lost(
    client: Client, topic: str, sink: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = write(client, topic, identity(sink, 0, 0), "a")
    dies_after_the_decision(client, [message], monkeypatch)
    assert message.opened is not None
    lowlevel.end_transaction(client, message.opened, commit=True)  # type: ignore[arg-type]
    client.abort_transaction(message.opened.transactional_id)  # by an operator who comes too late
    again = write(client, topic, identity(sink, 0, 0, "run2"), "a")
    with pytest.raises(NotRepairable, match="it is unknown whether"):
        commit_batch(client, SETTINGS, [again], 0)
    await_rows(client, topic, "a")


def test_a_winner_that_its_coordinator_has_lost_is_not_taken_for_committed(
    client: Client, topic: str, sink: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = write(client, topic, identity(sink, 0, 0), "a")
    with client.transaction(f"drumlin.{sink}.run1.{0:012x}.0") as nothing_in_it:
        opened = Opened(*lowlevel.detach(nothing_in_it))
        lost = dataclasses.replace(message, opened=opened)
        with monkeypatch.context() as patch:
            patch.setattr(driver, "missing", lambda *_: [])  # it was open when it was decided
            dies_after_the_decision(client, [lost], monkeypatch)
    again = write(client, topic, identity(sink, 0, 0, "run2"), "a")
    with pytest.raises(NotRepairable, match="has lost"):
        commit_batch(client, SETTINGS, [again], 0)
    abort_batch(client, SETTINGS, [message, None], 0)


def test_a_task_that_cannot_end_aborts_at_once(client: Client, topic: str, sink: str) -> None:
    begun = begin_task(client, identity(sink, 0, 0), SETTINGS)
    assert isinstance(begun, TaskWrite)
    begun.transaction.append(pa.table({"value": ["a"]}), topic)
    client.commit_offsets(f"drumlin.{sink}", {(SETTINGS.decision_topic, 0): 0})
    with pytest.raises(StateLost):
        begun.finish(1, "a")
    wait_until(lambda: not is_held_up(client, topic), "the abort to be marked")


def test_a_decision_topic_that_was_deleted_is_missed(client: Client, topic: str, sink: str) -> None:
    settings = SinkSettings(f"{sink}-decisions")
    first = write(client, topic, identity(sink, 0, 0), "a")
    commit_batch(client, settings, [first], 0)
    client.delete_topic(settings.decision_topic)
    group = f"drumlin.{sink}"
    wait_until(lambda: not client.committed_offsets(group), "its offsets to be gone")
    again = write(client, topic, identity(sink, 0, 0, "run2"), "a")
    for _ in range(2):
        with pytest.raises(StateLost, match="sinks forget"):
            commit_batch(client, settings, [again], 0)
        with pytest.raises(StateLost, match="sinks forget"):
            abort_batch(client, settings, [again], 0)
    performer = Performer(client)
    performer.run(forget(sink, settings))
    performer.close()
    wait_until(lambda: not is_held_up(client, topic), "the abort to be marked")
    await_rows(client, topic, "a")
    client.delete_topic(settings.decision_topic)


def test_a_decision_that_is_being_committed_is_waited_for(
    client: Client, topic: str, sink: str
) -> None:
    """The group's offset tells of the one before it until then."""
    with client.transaction(sink) as before:
        before.send_offsets({(topic, 0): OffsetAndMetadata(1, "before")}, sink)
    with ThreadPoolExecutor(1) as other, client.transaction(sink) as decision:
        decision.send_offsets({(topic, 0): OffsetAndMetadata(2, "decided")}, sink)
        found = other.submit(Performer(client).perform, FetchAnchor(sink, topic, True))
        wait([found], timeout=0.3)  # so long it could have seen the one before
        decision.commit()
        assert found.result(60) == Anchor(2, "decided")


def test_a_decision_behind_an_open_transaction_is_waited_for(
    client: Client, topic: str, sink: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another sink's driver that died: readers of what is committed see nothing behind it."""
    other = client.transaction(f"{sink}.other")
    rows = pa.table({"key": ["other"], "value": ["1"], "partition": [0]})
    other.append(rows, topic, partition="partition")
    row = pa.table({"key": [sink], "value": ["decided"], "partition": [0]})
    with client.transaction(sink) as decision:
        decision.append(row, topic, partition="partition")

    def pause(_: float) -> None:
        if other.state == "open":
            other.abort()

    monkeypatch.setattr(performer, "time", SimpleNamespace(monotonic=time.monotonic, sleep=pause))
    assert Performer(client).perform(FindRecord(topic, sink)) == b"decided"
    assert other.state == "aborted", "there was nothing to wait for"


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_decision_topic_that_forgets_by_age_is_refused(
    client: Client, topic: str, sink: str, policy: str
) -> None:
    settings = SinkSettings(f"{sink}-decisions")
    configs = {"cleanup.policy": policy, "retention.ms": "86400000"}
    client.create_topic(settings.decision_topic, 1, configs=configs)
    message = write(client, topic, identity(sink, 0, 0), "a")
    with pytest.raises(RequestFailed, match=rf"cleanup\.policy={policy}"):
        commit_batch(client, settings, [message], 0)
    wait_until(lambda: not is_held_up(client, topic), "the abort to be marked")
    client.set_topic_configs(settings.decision_topic, {"retention.ms": "-1"})
    again = write(client, topic, identity(sink, 0, 0, "run2"), "a")
    commit_batch(client, settings, [again], 0)
    await_rows(client, topic, "a")
    client.delete_topic(settings.decision_topic)


@pytest.mark.parametrize(("minutes", "warned"), [(7, False), (8, True)])
def test_a_batch_that_comes_close_to_its_time_out_is_warned_about(
    client: Client,
    topic: str,
    sink: str,
    minutes: int,
    warned: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    message = write(client, topic, identity(sink, 0, 0), "a")
    commit_batch(client, SETTINGS, [message], 0, clock=lambda: driver.now_ms() + minutes * 60_000)
    assert ("Raise the option kafka.transaction.timeout.ms" in caplog.text) == warned


def test_other_rows_in_place_of_lost_ones_stop_the_query(
    client: Client, topic: str, sink: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost_after_the_decision(client, topic, sink, monkeypatch)
    messages = [write(client, topic, identity(sink, 0, p, "run2"), f"other {p}") for p in (0, 1)]
    with pytest.raises(NotRepairable, match=r"batch 0 .* task 1 "):
        commit_batch(client, SETTINGS, messages, 0)
    await_rows(client, topic, "0")
    wait_until(lambda: not is_held_up(client, topic), "the abort to be marked")
