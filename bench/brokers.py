"""The brokers that are measured: started on memory, each with its own defaults."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from bench.dial import Dial, plain
from bench.harness import Options
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.raw import RawClient
from rig.servers.apache_kafka import ApacheKafka
from rig.waiting import wait_until

# What bin/kafka-server-start.sh and kafka-run-class.sh of the distribution start it with.
KAFKA_JVM = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
# Its cleaner says how fast it was, which some benchmarks read; else only what goes wrong.
_KAFKA_LOGGING = """\
appender.console.type = Console
appender.console.name = console
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
logger.cleaner.name = org.apache.kafka.storage.internals.log.LogCleaner$CleanerThread
logger.cleaner.level = info
"""
_CREATE_TOPICS, _DELETE_TOPICS, _METADATA, _LIST_OFFSETS = 7, 6, 12, 8
_LATEST = -1
_numbers = itertools.count()


class Broker:
    """A running broker and the few requests that a benchmark makes of it besides its load."""

    def __init__(self, name: str, process: ApacheKafka | DrumlinServer) -> None:
        self.name = name
        self.process = process
        self.port = process.port
        self.address = f"127.0.0.1:{process.port}"

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def dial(self) -> Dial:
        """How loads connect."""
        return plain(self.port)

    def ask(self, api: str, version: int, **fields: Any) -> Any:
        with RawClient(self.port, "bench", timeout_s=120) as client:
            return client.ask(api, version, **fields)

    @contextlib.contextmanager
    def topic(self, partitions: int = 1, **configs: str) -> Iterator[str]:
        """A new topic, whose memory is given back soon after the block."""
        name = self.create_topic(partitions, **configs)
        try:
            yield name
        finally:
            self.ask("delete_topics", _DELETE_TOPICS, timeout=60_000, topics=[{"name": name}])

    def create_topic(self, partitions: int = 1, **configs: str) -> str:
        """A new topic with a name of its own."""
        name = f"bench-{next(_numbers)}"
        settings = {"file.delete.delay.ms": "1000", **configs}
        answer = self.ask(
            "create_topics",
            _CREATE_TOPICS,
            timeout=60_000,
            topics=[
                {
                    "name": name,
                    "num_partitions": partitions,
                    "replication_factor": 1,
                    "configs": [{"name": k, "value": v} for k, v in settings.items()],
                }
            ],
        )
        require_no_error(answer.topics[0])
        return name

    def topic_id(self, topic: str) -> Any:
        def find() -> Any:
            answer = self.ask("metadata", _METADATA, topics=[{"name": topic}])
            return answer.topics[0].topic_id

        return wait_until(find, f"{self.name} to know {topic}")

    def end_offset(self, topic: str, partition: int = 0) -> int:
        answer = self.ask(
            "list_offsets",
            _LIST_OFFSETS,
            replica_id=-1,
            topics=[
                {
                    "name": topic,
                    "partitions": [
                        {
                            "partition_index": partition,
                            "current_leader_epoch": -1,
                            "timestamp": _LATEST,
                        }
                    ],
                }
            ],
        )
        found = answer.topics[0].partitions[0]
        require_no_error(found)
        return int(found.offset)


def require_no_error(answer: Any) -> None:
    if answer.error_code != 0:
        raise RuntimeError(f"the broker answered {answer.error_code!r}: {answer}")


@contextlib.contextmanager
def brokers(
    options: Options, settings: Mapping[str, str] | None = None
) -> Iterator[tuple[Broker, Broker]]:
    """Drumlin and Apache Kafka, both running and both empty, with defaults but for `settings`."""
    with drumlin(options, settings) as ours, kafka(options, settings) as theirs:
        yield ours, theirs


@contextlib.contextmanager
def drumlin(options: Options, settings: Mapping[str, str] | None = None) -> Iterator[Broker]:
    directory = options.directory / "drumlin"
    directory.mkdir()
    server = DrumlinServer(directory, settings)
    with contextlib.closing(server):
        server.start()
        yield Broker("Drumlin", server)


@contextlib.contextmanager
def kafka(options: Options, settings: Mapping[str, str] | None = None) -> Iterator[Broker]:
    directory = options.directory / "kafka"
    directory.mkdir()
    logging = directory / "log4j2.properties"
    logging.write_text(_KAFKA_LOGGING)
    jvm = (*KAFKA_JVM, f"-Dlog4j2.configurationFile={logging}")
    server = ApacheKafka(directory, settings or {}, jvm=jvm)
    with contextlib.closing(server):
        server.start()
        yield Broker("Kafka", server)
