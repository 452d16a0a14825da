"""Several brokers from one configuration: what each has of its own, and its part of the limits."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.config.broker import BrokerConfig
from drumlin.config.config_error import ConfigError
from drumlin.config.machine import check_machine, properties_of
from drumlin.config.machine_folders import folder_of, log_dir_of


def brokers(properties: Mapping[str, str], count: int) -> list[BrokerConfig]:
    config = BrokerConfig.load(properties, count)
    check_machine(config, count)
    return [
        BrokerConfig.load(properties_of(config, properties, index), count) for index in range(count)
    ]


def test_ids_ports_and_folders_follow() -> None:
    found = brokers(
        {
            "broker.id": "7",
            "listeners": "PLAINTEXT://:9092,INTERNAL://[::1]:9192",
            "advertised.listeners": "PLAINTEXT://example.org:19092,INTERNAL://[::1]:9192",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
            "log.dirs": "/a,/b",
            "drumlin.metrics.listener": "127.0.0.1:9404",
            "num.partitions": "3",
        },
        3,
    )
    assert [each.node_id for each in found] == [7, 8, 9]
    ports = [[listener.port for listener in each.listeners] for each in found]
    assert ports == [[9092, 9192], [9093, 9193], [9094, 9194]]
    assert [each.listeners[1].host for each in found] == ["::1"] * 3
    advertised = [each.advertised_listeners[0] for each in found]
    assert [(each.host, each.port) for each in advertised] == [
        ("example.org", 19092 + index) for index in range(3)
    ]
    assert [each.log_dirs for each in found] == [
        ("/a", "/b"),
        ("/a/.brokers/8", "/b/.brokers/8"),
        ("/a/.brokers/9", "/b/.brokers/9"),
    ]
    assert {each.num_partitions for each in found} == {3}
    # One address has the metrics of all: no broker has it.
    assert {each.drumlin_metrics_listener for each in found} == {None}


def test_ports_that_are_given_out_by_the_system_stay_so() -> None:
    found = brokers({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dir": "/a"}, 2)
    assert [each.listeners[0].port for each in found] == [0, 0]
    assert found[1].log_dirs == ("/a/.brokers/2",)


def test_a_cordoned_log_dir_is_so_for_all() -> None:
    found = brokers({"log.dirs": "/a,/b", "cordoned.log.dirs": "/b"}, 2)
    for each in found:
        assert [each.is_cordoned(path) for path in each.log_dirs] == [False, True]
    found[1].update_dynamic({}, {"cordoned.log.dirs": "/a/.brokers/2"})
    assert [found[1].is_cordoned(path) for path in found[1].log_dirs] == [True, False]


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"listeners": "A://:9092,B://:9093"}, "must be 3 ports away from A://:9092"),
        ({"listeners": "A://:65534"}, "must leave 3 ports from 65534 on"),
        (
            {"advertised.listeners": "PLAINTEXT://example.org:65535"},
            "must leave 3 ports from 65535 on",
        ),
        ({"zookeeper.connect": "localhost"}, "cannot be given with --brokers"),
    ],
)
def test_what_cannot_be_shared_is_refused(properties: dict[str, str], said: str) -> None:
    protocols = {"listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT,PLAINTEXT:PLAINTEXT"}
    with pytest.raises(ConfigError, match=said):
        brokers(protocols | properties, 3)


def test_limits_are_divided() -> None:
    given_limits = {
        "log.cleaner.threads": "3",
        "log.cleaner.dedupe.buffer.size": str(64 << 20),
        "log.cleaner.io.max.bytes.per.second": "1000",
        "max.connections": "101",
        "max.connections.per.ip": "10",
        "max.connections.per.ip.overrides": "127.0.0.1:5,10.0.0.1:0",
        "queued.max.request.bytes": str(800 << 20),
    }
    for each in brokers(given_limits, 4):
        assert each.log_cleaner_threads == 1
        assert each.log_cleaner_dedupe_buffer_size == 16 << 20
        assert each.log_cleaner_io_max_bytes_per_second == 250
        assert each.max_connections == 26
        assert each.max_connections_per_ip == 3
        assert each.max_connections_per_ip_overrides == {"127.0.0.1": 2, "10.0.0.1": 0}
        assert each.queued_max_request_bytes == 200 << 20
        # A client is shown what was given, for all of them.
        assert each.value("max.connections") == 101


def test_a_change_at_run_time_is_divided() -> None:
    (_, second) = brokers({}, 2)
    second.update_dynamic({"max.connections": "50", "log.cleaner.threads": "2"}, {})
    assert (second.max_connections, second.log_cleaner_threads) == (25, 1)


def test_what_is_without_a_limit_stays_so() -> None:
    (first, _) = brokers({"queued.max.request.bytes": "-1", "log.cleaner.threads": "0"}, 2)
    assert first.max_connections == first.max_connections_per_ip == 2**31 - 1
    assert first.queued_max_request_bytes == -1
    assert first.log_cleaner_threads == 0


@given(
    st.integers(1, 256),
    st.integers(0, 20),
    st.integers(1 << 20, 1 << 32),
    st.integers(100 << 20, 1 << 32),
)
def test_every_broker_gets_what_it_needs_to_work(
    count: int, threads: int, map_bytes: int, request_bytes: int
) -> None:
    properties = {
        "log.cleaner.threads": str(threads),
        "log.cleaner.dedupe.buffer.size": str(max(map_bytes, threads << 20)),
        "queued.max.request.bytes": str(request_bytes),
        "socket.request.max.bytes": str(100 << 20),
    }
    config = BrokerConfig.load(properties, count)
    assert config.log_cleaner_threads <= max(1, threads)
    assert (config.log_cleaner_threads > 0) == (threads > 0)
    assert config.log_cleaner_dedupe_buffer_size >= config.log_cleaner_threads << 20
    assert config.queued_max_request_bytes >= config.socket_request_max_bytes


@given(st.sampled_from(["/a", "relative/b", "/with/.hidden"]), st.integers(0, 9))
def test_a_folder_knows_its_log_dir(log_dir: str, index: int) -> None:
    assert log_dir_of(folder_of(log_dir, index, 1 + index)) == log_dir
