"""A broker that cleans: what is left for readers, and how it follows what it is told."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.in_process import config, running
from drumlin.broker.hosting.log_cleaner import LoopCalls, cleaner_settings
from drumlin.broker.start.startup import StartFailed
from drumlin.cli.reach.broker_http import broker_on
from drumlin.compaction.failures import CleaningStopped
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.compacted_topic import (
    CLEANED_S,
    alter,
    ask_operator,
    await_clean,
    create,
    fetch,
    produce,
    read,
    status,
)
from rig.ports import free_ports
from rig.waiting import wait_until

pytestmark = pytest.mark.clients

SETTINGS = {
    "log.cleaner.backoff.ms": "50",
    "log.retention.check.interval.ms": "100",
    "log.initial.task.delay.ms": "100",
}
NEARLY_NOTHING = {"log.cleaner.io.max.bytes.per.second": "4000"}
ENOUGH = {"log.cleaner.io.max.bytes.per.second": "1e12"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrumlinServer]:
    server = DrumlinServer(
        tmp_path_factory.mktemp("cleaning"),
        SETTINGS | {"drumlin.metrics.listener": f"127.0.0.1:{free_ports(1)[0]}"},
    )
    server.start()
    try:
        yield server
        server.stop()
        server.check_output()
    finally:
        server.close()


def metrics_page(server: DrumlinServer, path: str = "/metrics") -> str:
    port = int(server.settings["drumlin.metrics.listener"].rpartition(":")[2])
    return fetch(port, path).decode()


def metrics(server: DrumlinServer) -> dict[tuple[str, ...], float]:
    """Name and labels -> value, of all that is measured."""
    page = metrics_page(server)
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


# -- what is left ------------------------------------------------------------------------------


def test_the_last_value_of_every_key_is_left(server: DrumlinServer) -> None:
    create(server.address, "last")
    last = produce(server.address, "last", rounds=30)
    row = await_clean(server.data, "last")
    found = read(server.address, "last")
    assert {key: value for _, key, value in found} == last
    offsets = [offset for offset, _, _ in found]
    assert offsets == sorted(set(offsets))
    assert offsets[-1] == 30 * 100 - 1
    # One value of each key in the tail, and whatever is in the active segment.
    active_count = 3000 - row["first_uncleanable_offset"]
    assert len(found) <= 100 + active_count < 1000
    assert (row["uncleanable_because"], row["overdue_ms"]) == (None, 0)
    assert row["last_cleaning"]["superseded"] > 0


def test_a_log_without_repeated_keys_loses_nothing(server: DrumlinServer) -> None:
    create(server.address, "unique")
    last = produce(server.address, "unique", rounds=1, keys=2000)
    await_clean(server.data, "unique")
    assert {key: value for _, key, value in read(server.address, "unique")} == last


def test_records_do_not_wait_longer_than_they_may(server: DrumlinServer) -> None:
    """Neither for more of them, nor for the segment to be full."""
    create(server.address, "soon", min_cleanable_dirty_ratio="1", max_compaction_lag_ms="300")
    last = produce(server.address, "soon", rounds=2, keys=20)
    wait_until(lambda: len(read(server.address, "soon")) == 20, "all to be cleaned", CLEANED_S)
    assert {key: value for _, key, value in read(server.address, "soon")} == last


def test_young_records_are_left_alone(server: DrumlinServer) -> None:
    create(server.address, "young", min_compaction_lag_ms="3600000")
    create(server.address, "any-age")
    for topic in ("young", "any-age"):
        produce(server.address, topic)
    await_clean(server.data, "any-age")
    assert len(read(server.address, "young")) == 2000
    alter(server.address, "young", {"min.compaction.lag.ms": "0"})
    await_clean(server.data, "young")
    assert len(read(server.address, "young")) < 1000


def test_what_is_overdue_shows(server: DrumlinServer) -> None:
    """Records that have waited longer than they may, as the cleaner does not come to them."""
    alter(server.address, None, NEARLY_NOTHING)
    create(server.address, "late", max_compaction_lag_ms="1", min_cleanable_dirty_ratio="1")
    produce(server.address, "late")

    def overdue_s() -> float:
        found = metrics(server)
        return next(
            (
                value
                for (name, *labels), value in found.items()
                if name == "drumlin_compaction_overdue_seconds" and "late" in labels
            ),
            0.0,
        )

    wait_until(lambda: overdue_s() > 0, "records to be overdue")
    alter(server.address, None, ENOUGH)
    wait_until(lambda: overdue_s() == 0, "all to be cleaned", CLEANED_S)


# -- what it is told ---------------------------------------------------------------------------


def test_a_policy_may_change(server: DrumlinServer) -> None:
    create(server.address, "policy", cleanup_policy="delete")
    produce(server.address, "policy")
    assert status(server.data, "policy") is None
    assert len(read(server.address, "policy")) == 2000

    alter(server.address, "policy", {"cleanup.policy": "compact"})
    await_clean(server.data, "policy")
    compacted = read(server.address, "policy")
    assert len(compacted) < 1000
    assert compacted[0][0] > 0

    changes = {"cleanup.policy": "compact,delete", "retention.ms": "1"}
    alter(server.address, "policy", changes)
    wait_until(lambda: len(read(server.address, "policy")) == 0, "retention to remove the tail")

    changes = {"cleanup.policy": "delete", "retention.ms": "-1"}
    alter(server.address, "policy", changes)
    assert status(server.data, "policy") is None
    produce(server.address, "policy")
    assert len(read(server.address, "policy")) == 2000


def test_keys_of_the_cleaner_take_effect_at_once(server: DrumlinServer) -> None:
    """A cleaning that would take for ever is begun again with more room."""
    alter(server.address, None, NEARLY_NOTHING)
    create(server.address, "slow")
    produce(server.address, "slow")

    def is_being_cleaned() -> bool:
        row = status(server.data, "slow")
        return row is not None and row["is_being_cleaned"]

    wait_until(is_being_cleaned, "a cleaning to begin")
    alter(server.address, None, {**ENOUGH, "log.cleaner.threads": "2"})
    names = {name for name, *_ in metrics(server)}
    await_clean(server.data, "slow")
    assert len(read(server.address, "slow")) < 1000
    assert {name for name, *_ in metrics(server)} >= names  # of the new threads as of the old one
    alter(server.address, None, {"log.cleaner.threads": "1"})


def test_settings_that_make_no_sense_are_made_to_work(tmp_path: Path) -> None:
    for factor in ("NaN", "-1", "0", "7", "Infinity"):
        settings = cleaner_settings(
            config(
                tmp_path,
                log_cleaner_io_buffer_load_factor=factor,
                log_cleaner_io_max_bytes_per_second=factor,
            )
        )
        assert 0 < settings.io_buffer_load_factor < 1
        assert settings.io_max_bytes_per_second >= 1


def test_what_is_deleted_is_forgotten(server: DrumlinServer) -> None:
    create(server.address, "gone")
    produce(server.address, "gone")
    await_clean(server.data, "gone")
    assert ("drumlin_compaction_tail_bytes", "0", "gone") in metrics(server)
    with server.connect() as client:
        client.ask("delete_topics", 5, topic_names=["gone"], timeout=10_000)
    assert status(server.data, "gone") is None
    assert not [each for each in metrics(server) if "gone" in each]


# -- stopping ----------------------------------------------------------------------------------


@pytest.mark.deep
def test_a_stop_does_not_wait_for_a_cleaning(server: DrumlinServer) -> None:
    alter(server.address, None, NEARLY_NOTHING)
    create(server.address, "stopped")
    last = produce(server.address, "stopped")
    wait_until(
        lambda: (status(server.data, "stopped") or {})["is_being_cleaned"], "a cleaning to begin"
    )

    def wait_for_a_cleaning() -> None:
        with contextlib.suppress(OSError, IndexError):  # no answer
            ask_operator(server.data, "POST /compaction/run", '{"topic": "stopped"}')

    asked = threading.Thread(target=wait_for_a_cleaning)
    asked.start()
    server.restart()
    asked.join()
    assert not [each for each in (server.data / "stopped-0").iterdir() if "clean" in each.name]
    assert {key: value for _, key, value in read(server.address, "stopped")} == last
    assert len(read(server.address, "stopped")) == 2000
    alter(server.address, None, ENOUGH)
    await_clean(server.data, "stopped")
    assert {key: value for _, key, value in read(server.address, "stopped")} == last


# -- what it tells -----------------------------------------------------------------------------


def test_metrics(server: DrumlinServer) -> None:
    create(server.address, "measured")
    produce(server.address, "measured")
    row = await_clean(server.data, "measured")
    measured = metrics(server)

    def of(name: str) -> float:
        return measured[f"drumlin_compaction_{name}", "0", "measured"]

    assert of("tail_bytes") == row["tail_bytes"]
    assert (of("head_bytes"), of("dirty_ratio"), of("uncleanable")) == (0, 0, 0)
    assert of("seconds_since_last_cleaning") >= 0
    assert 0 < of("last_cleaning_map_utilisation") <= 1
    assert of("last_cleaning_bytes_per_second") > 0
    assert measured["drumlin_event_loop_turns_total",] >= 1
    assert measured["drumlin_compaction_cleanings_total",] >= 1
    read_bytes = measured["drumlin_compaction_read_bytes_total",]
    assert read_bytes > measured["drumlin_compaction_written_bytes_total",] > 0
    assert measured["drumlin_compaction_uncleanable_partitions", str(server.data)] == 0
    assert ("drumlin_compaction_tail_bytes", "0", "policy") not in measured


def test_the_metrics_listener_changes_nothing(server: DrumlinServer) -> None:
    with pytest.raises(AssertionError):
        metrics_page(server, "/compaction/run")
    with pytest.raises(AssertionError):
        metrics_page(server, "/compaction/simulate?topic=last")


@pytest.mark.parametrize(
    ("request_line", "body", "code", "error"),
    [
        ("POST /compaction/run", "{}", 400, "a topic must be named"),
        ("POST /compaction/run", '{"topic": 1}', 400, "a topic must be named"),
        ("POST /compaction/run", "[", 400, "not JSON"),
        ("POST /compaction/run", '{"topic": "none"}', 404, "no topic none"),
        ("POST /compaction/run", '{"topic": "asked", "partition": 9}', 404, "no partition 9"),
        ("POST /compaction/run", '{"topic": "asked", "partition": true}', 400, "is a number"),
        ("POST /compaction/run", '{"topic": "asked", "partition": "0"}', 400, "is a number"),
        ("POST /compaction/run", '{"topic": "plain"}', 409, "plain is not compacted"),
        ("GET /compaction/run", "", 405, "takes POST"),
        ("GET /compaction/simulate?topic=asked&partition=x", "", 400, "is a number"),
        ("GET /compaction/simulate", "", 400, "a topic must be named"),
        ("GET /compaction?partition=x", "", 400, "is a number"),
        ("GET /nowhere", "", 404, "no such path"),
    ],
)
def test_what_an_operator_may_not_ask(
    server: DrumlinServer, request_line: str, body: str, code: int, error: str
) -> None:
    if status(server.data, "asked") is None:
        create(server.address, "asked")
        create(server.address, "plain", cleanup_policy="delete")
    answered, answer = ask_operator(server.data, request_line, body)
    assert (answered, error in answer["error"]) == (code, True), answer


def test_a_log_that_cannot_be_read_is_given_up(tmp_path: Path) -> None:
    settings = {"log.cleaner.backoff.ms": "50", "log.cleaner.threads": "0"}
    server = DrumlinServer(tmp_path, settings)
    try:
        server.start()
        for topic in ("broken", "sound"):
            create(server.address, topic)
            produce(server.address, topic)
        server.stop()
        with (server.data / "broken-0" / f"{0:020}.log").open("r+b") as file:
            file.seek(500)
            byte = file.read(1)[0]
            file.seek(500)
            file.write(bytes([byte ^ 1]))
        server.settings["log.cleaner.threads"] = "1"
        server.start()
        await_clean(server.data, "sound")
        row = wait_until(
            lambda: status(server.data, "broken")["uncleanable_because"],  # type: ignore[index]
            "the broken log to be given up",
            CLEANED_S,
        )
        assert "00000000000000000000.log" in row
        body = '{"topic": "broken"}'
        code, answer = ask_operator(server.data, "POST /compaction/run", body)
        assert (code, answer["results"][0]["is_failed"]) == (200, True)
        server.stop()
        server.check_output()
    finally:
        server.close()


def test_a_broker_may_be_told_not_to_clean(tmp_path: Path) -> None:
    server = DrumlinServer(tmp_path, {"log.cleaner.enable": "false"})
    try:
        server.start()
        create(server.address, "kept")
        produce(server.address, "kept")
        code, answer = ask_operator(server.data, "POST /compaction/run", '{"topic": "kept"}')
        assert (code, answer["error"]) == (409, "nothing is cleaned: log.cleaner.enable is false")
        assert status(server.data, "kept")["head_bytes"] > 0  # type: ignore[index]
        code, answer = ask_operator(server.data, "GET /compaction/simulate?topic=kept")
        assert answer["results"][0]["cleaning"]["superseded"] > 0
        assert len(read(server.address, "kept")) == 2000
        server.stop()
        assert not (server.data / "drumlin-admin.sock").exists()
    finally:
        server.close()


def test_a_socket_left_by_a_crash_is_replaced(tmp_path: Path) -> None:
    server = DrumlinServer(tmp_path)
    try:
        server.start()
        server.kill()
        assert (server.data / "drumlin-admin.sock").exists()
        server.start()
        assert ask_operator(server.data, "GET /compaction")[0] == 200
        server.stop()
    finally:
        server.close()


def test_a_start_that_fails_leaves_no_socket(tmp_path: Path) -> None:
    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(StartFailed):
                async with running(tmp_path, listeners=f"PLAINTEXT://127.0.0.1:{port}"):
                    pass
        assert not (tmp_path / "drumlin-admin.sock").exists()

    asyncio.run(run())


def test_a_data_directory_may_lie_deep(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120) / ("e" * 120)

    async def run() -> None:
        async with running(deep):
            broker = broker_on(deep)
            assert broker is not None
            report = await asyncio.to_thread(broker.get, "/compaction")
            assert (report["is_enabled"], report["partitions"]) == (True, [])
        assert not (deep / "drumlin-admin.sock").exists()

    asyncio.run(run())


def test_an_address_of_metrics_that_is_in_use(tmp_path: Path, server: DrumlinServer) -> None:
    second = DrumlinServer(tmp_path, server.settings)
    try:
        with pytest.raises(AssertionError, match="cannot listen on"):
            second.start()
    finally:
        second.close()
    shutil.rmtree(tmp_path)


# -- calls between threads ---------------------------------------------------------------------


def test_calls_on_the_loop() -> None:
    async def run() -> None:
        calls = LoopCalls(asyncio.get_running_loop())
        loop_thread = threading.get_ident()
        assert await asyncio.to_thread(calls, threading.get_ident) == loop_thread

        def fail() -> None:
            raise KeyError("x")

        with pytest.raises(KeyError):
            await asyncio.to_thread(calls, fail)
        calls.close()
        with pytest.raises(CleaningStopped):
            await asyncio.to_thread(calls, fail)

    asyncio.run(run())


def test_calls_that_wait_when_the_loop_stops_are_refused() -> None:
    outcome: list[BaseException] = []
    was_called = threading.Event()

    async def run() -> LoopCalls:
        calls = LoopCalls(asyncio.get_running_loop())
        begun = threading.Event()

        def ask() -> None:
            begun.set()
            try:
                calls(was_called.set)
            except BaseException as error:
                outcome.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        begun.wait()
        calls.close()  # before the loop has a turn
        await asyncio.to_thread(thread.join)
        return calls

    calls = asyncio.run(run())
    with pytest.raises(CleaningStopped):
        calls(was_called.set)
    assert was_called.is_set() or isinstance(outcome[0], CleaningStopped)
