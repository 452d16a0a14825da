"""Apache Kafka's own command line tools, on the Java client."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from rig.brokers.drumlin_server import DrumlinServer
from rig.servers.apache_kafka import run_tool
from rig.waiting import wait_until

pytestmark = [
    pytest.mark.clients,
    pytest.mark.kafka,
    pytest.mark.usefixtures("kafka_classes"),
]

Name = Callable[[str], str]
_TOOLS = "org.apache.kafka.tools"


def tool(name: str, bootstrap: str, *arguments: str, option: str = "--bootstrap-server") -> str:
    return run_tool(f"{_TOOLS}.{name}", option, bootstrap, *arguments)


def produce(bootstrap: str, topic: str, count: int, *properties: str) -> str:
    settings = [f"bootstrap.servers={bootstrap}", *properties]
    return run_tool(
        f"{_TOOLS}.ProducerPerformance",
        *("--topic", topic, "--num-records", str(count), "--record-size", "100"),
        *("--throughput", "-1", "--producer-props", *settings),
    )


def test_topics_and_performance(bootstrap: str, unique: Name) -> None:
    """Create, describe, fill, measure, ask for offsets, shrink and delete one topic."""
    topic = unique("topic")
    creation = ("--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=-1")
    tool("TopicCommand", bootstrap, *creation)
    described = tool("TopicCommand", bootstrap, "--describe", "--topic", topic)
    assert "PartitionCount: 3" in described
    assert "retention.ms=-1" in described

    assert "5000 records sent" in produce(bootstrap, topic, 5000, "compression.type=lz4")
    fetched = tool(
        "ConsumerPerformance",
        bootstrap,
        "--topic",
        topic,
        "--messages",
        "5000",
        "--timeout",
        "20000",
    )
    assert "5000" in fetched
    offsets = tool("GetOffsetShell", bootstrap, "--topic", topic, "--time", "latest")
    assert sum(int(line.rpartition(":")[2]) for line in offsets.split()) == 5000

    tool("TopicCommand", bootstrap, "--alter", "--topic", topic, "--partitions", "4")
    assert "PartitionCount: 4" in tool("TopicCommand", bootstrap, "--describe", "--topic", topic)
    tool("TopicCommand", bootstrap, "--delete", "--topic", topic)
    assert topic not in tool("TopicCommand", bootstrap, "--list").split()


def test_what_a_broker_without_users_says(bootstrap: str) -> None:
    """Of rights and users there are none; there are quotas, a controller, and features."""

    def configs(*arguments: str) -> str:
        return run_tool("kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap, *arguments)

    with pytest.raises(AssertionError, match="SecurityDisabledException"):
        tool("AclCommand", bootstrap, "--list")
    for users in ("users", "clients", "ips"):
        assert not configs("--describe", "--entity-type", users).strip()
    everybody = ("--entity-type", "users", "--entity-default")
    configs("--alter", "--add-config", "producer_byte_rate=1e9", *everybody)
    assert "producer_byte_rate=1.0E9" in configs("--describe", *everybody)
    configs("--alter", "--delete-config", "producer_byte_rate", *everybody)
    with pytest.raises(AssertionError, match="DelegationToken"):
        tool("DelegationTokenCommand", bootstrap, "--describe")
    described = tool("FeatureCommand", bootstrap, "describe")
    assert re.search(r"transaction\.version.*FinalizedVersionLevel: 2", described)
    with pytest.raises(AssertionError, match="cannot have level 0"):
        tool("FeatureCommand", bootstrap, "downgrade", "--feature", "group.version=0")
    status = tool("MetadataQuorumCommand", bootstrap, "describe", "--status")
    assert re.search(r"LeaderId:\s+1\b", status)
    assert "Leader" in tool("MetadataQuorumCommand", bootstrap, "describe", "--replication")


def test_groups(bootstrap: str, unique: Name) -> None:
    topic, group = unique("topic"), unique("group")
    tool("TopicCommand", bootstrap, "--create", "--topic", topic, "--partitions", "2")
    produce(bootstrap, topic, 100, "enable.idempotence=true")
    console = f"{_TOOLS}.consumer.ConsoleConsumer"
    arguments = ("--bootstrap-server", bootstrap, "--topic", topic, "--group", group)
    consumed = run_tool(console, *arguments, "--from-beginning", "--max-messages", "100")
    assert len(consumed.splitlines()) == 100

    command = f"{_TOOLS}.consumer.group.ConsumerGroupCommand"
    about = ("--bootstrap-server", bootstrap, "--group", group)
    described = run_tool(command, *about, "--describe")
    rows = re.findall(rf"^{group}\s+{topic}\s+\d\s+(\d+)\s+(\d+)\s+(\d+)", described, re.MULTILINE)
    assert sum(int(current) for current, _, _ in rows) == 100
    assert [lag for _, _, lag in rows] == ["0", "0"]
    reset = ("--reset-offsets", "--to-earliest", "--topic", topic, "--execute")
    run_tool(command, *about, *reset)
    assert re.search(rf"{topic}\s+0\s+0\s", run_tool(command, *about, "--describe"))
    run_tool(command, *about, "--delete")
    assert group not in run_tool(command, *about[:2], "--list").split()


def test_configs_and_log_dirs(bootstrap: str, unique: Name) -> None:
    topic = unique("topic")
    tool("TopicCommand", bootstrap, "--create", "--topic", topic)
    about = ("--bootstrap-server", bootstrap, "--entity-type", "topics", "--entity-name", topic)
    command = "kafka.admin.ConfigCommand"
    run_tool(command, *about, "--alter", "--add-config", "segment.bytes=1048577")
    assert "segment.bytes=1048577" in run_tool(command, *about, "--describe")
    described = tool("LogDirsCommand", bootstrap, "--describe", "--topic-list", topic)
    assert f'"{topic}-0"' in described


def test_java_consumer_reads_every_codec(bootstrap: str, unique: Name) -> None:
    topic = unique("topic")
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        produce(bootstrap, topic, 20, f"compression.type={codec}")
    consumed = run_tool(
        f"{_TOOLS}.consumer.ConsoleConsumer",
        *("--bootstrap-server", bootstrap, "--topic", topic),
        *("--from-beginning", "--max-messages", "100", "--timeout-ms", "20000"),
    )
    assert len(consumed.splitlines()) == 100


def test_dump_log_segments_finds_nothing_wrong(
    server: DrumlinServer, bootstrap: str, unique: Name
) -> None:
    topic = unique("topic")
    creation = ("--create", "--topic", topic, "--config", "index.interval.bytes=512")
    tool("TopicCommand", bootstrap, *creation)
    for codec in ("none", "zstd"):
        produce(bootstrap, topic, 2000, f"compression.type={codec}", "batch.size=2000")
    files = [
        str(path)
        for path in sorted(Path(server.data, f"{topic}-0").iterdir())
        if path.suffix in (".log", ".index", ".timeindex")
    ]
    assert len(files) == 3
    dumped = _dump(*files, "--deep-iteration", "--verify-index-only")
    assert "isvalid: true" in dumped


def test_dump_log_segments_reads_committed_offsets(
    server: DrumlinServer, bootstrap: str, unique: Name
) -> None:
    """The records of `__consumer_offsets` are Kafka's."""
    topic, group = unique("topic"), unique("group")
    produce(bootstrap, topic, 10, "compression.type=none")
    arguments = ("--bootstrap-server", bootstrap, "--topic", topic, "--group", group)
    console = f"{_TOOLS}.consumer.ConsoleConsumer"
    run_tool(console, *arguments, "--from-beginning", "--max-messages", "10")
    logs = sorted(server.data.glob("__consumer_offsets-*/*.log"))
    dumped = _dump(*map(str, logs), "--deep-iteration", "--offsets-decoder")
    assert f'"group":"{group}"' in dumped
    assert f'"topic":"{topic}"' in dumped
    assert '"offset":10' in dumped
    assert '"protocol":"range"' in dumped or '"protocol":"cooperative-sticky"' in dumped


def test_dump_log_segments_reads_producer_snapshots(
    server: DrumlinServer, bootstrap: str, unique: Name
) -> None:
    topic = unique("topic")
    creation = ("--create", "--topic", topic, "--config", "segment.bytes=1048576")
    tool("TopicCommand", bootstrap, *creation)
    produce(bootstrap, topic, 15_000, "enable.idempotence=true", "compression.type=none")
    directory = Path(server.data, f"{topic}-0")
    snapshots = wait_until(lambda: sorted(directory.glob("*.snapshot")), "a snapshot at the roll")
    assert "producerEpoch: 0" in _dump(*map(str, snapshots))


def _dump(*arguments: str) -> str:
    files = [each for each in arguments if not each.startswith("--")]
    options = [each for each in arguments if each.startswith("--")]
    dumped = run_tool(f"{_TOOLS}.DumpLogSegments", "--files", ",".join(files), *options)
    for complaint in ("isvalid: false", "Mismatches", "Found", "corrupt", "Exception"):
        assert complaint not in dumped, dumped[-3000:]
    return dumped
