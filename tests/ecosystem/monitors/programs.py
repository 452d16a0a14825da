"""What watches clusters: kafka_exporter, kminion and Burrow, started, and what they say of lag."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import ClassVar

from prometheus_client.parser import text_string_to_metric_families

from ecosystem.installed import go_cloned
from ecosystem.secured.login import Login
from rig.brokers.process import BrokerProcess
from rig.ports import free_ports
from rig.servers.zookeeper import ZooKeeper

KAFKA_EXPORTER, KMINION, BURROW = "1.9.0", "2.3.5", "1.9.5"
#: By group and partition of the one topic that is asked for.
Lags = dict[tuple[str, int], int]
_BURROW = """
[zookeeper]
servers = ["{zookeeper}"]
root-path = "/burrow"
[client-profile.local]
client-id = "burrow"
kafka-version = "2.8.0"
{profile}
[cluster.local]
class-name = "kafka"
servers = ["{address}"]
client-profile = "local"
topic-refresh = 1
offset-refresh = 1
[consumer.local]
class-name = "kafka"
cluster = "local"
servers = ["{address}"]
client-profile = "local"
[httpserver.default]
address = "127.0.0.1:{port}"
"""
_BURROW_LOGIN = """
tls = "login"
sasl = "login"
[tls.login]
cafile = "{ca}"
[sasl.login]
username = "{user}"
password = "{password}"
handshake-first = true
mechanism = "SCRAM-SHA-512"
"""


class Monitor(BrokerProcess):
    """One program that asks a cluster for its groups, and serves numbers by HTTP."""

    reads_offsets_topic: ClassVar = False

    def __init__(self, folder: Path, address: str, login: Login | None = None) -> None:
        super().__init__(folder / "monitor.out")
        self.port = free_ports(1)[0]
        self._folder, self._address, self._login = folder, address, login

    def start(self) -> None:
        raise NotImplementedError

    def lags(self, topic: str) -> Lags:
        raise NotImplementedError

    def fetched(self, path: str) -> str:
        """What it serves there; nothing before it is ready."""
        self.fail_if_ended()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as page:
                text: str = page.read().decode()
        except OSError:
            return ""
        return text


class Exporter(Monitor):
    """One whose numbers are measures of Prometheus; its subclass says how they are called."""

    lag: ClassVar[str]
    lowest: ClassVar[str]
    highest: ClassVar[str]
    counted: ClassVar[str]
    #: Labels: the group, the topic, the partition.
    labels: ClassVar[tuple[str, str, str]]

    def lags(self, topic: str) -> Lags:
        group, _, partition = self.labels
        found = self._measured(self.lag, topic)
        return {(labels[group], int(labels[partition])): int(value) for labels, value in found}

    def offsets(self, topic: str) -> dict[int, tuple[int, int]]:
        """The log start and the end of each partition."""
        lowest, highest = (
            {int(labels[self.labels[2]]): int(value) for labels, value in found}
            for found in (self._measured(self.lowest, topic), self._measured(self.highest, topic))
        )
        return {partition: (start, highest[partition]) for partition, start in lowest.items()}

    def members(self, group: str) -> int:
        found = self._measured(self.counted)
        return sum(int(value) for labels, value in found if labels[self.labels[0]] == group)

    def _measured(self, name: str, topic: str | None = None) -> list[tuple[dict[str, str], float]]:
        return [
            (sample.labels, sample.value)
            for family in text_string_to_metric_families(self.fetched("/metrics"))
            for sample in family.samples
            if sample.name == name and topic in (None, sample.labels.get(self.labels[1]))
        ]


class KafkaExporter(Exporter):
    """It asks with each scrape, by sarama."""

    lag = "kafka_consumergroup_lag"
    lowest = "kafka_topic_partition_oldest_offset"
    highest = "kafka_topic_partition_current_offset"
    counted = "kafka_consumergroup_members"
    labels = ("consumergroup", "topic", "partition")

    def start(self) -> None:
        program = go_cloned("danielqsj/kafka_exporter", f"v{KAFKA_EXPORTER}")
        told = {"kafka.server": self._address, "web.listen-address": f"127.0.0.1:{self.port}"}
        if self._login is not None:
            told |= {
                "sasl.mechanism": "scram-sha512",
                "sasl.username": self._login.user,
                "sasl.password": self._login.password,
                "tls.ca-file": self._login.ca,
            }
        switches = ["--sasl.enabled", "--tls.enabled"] if self._login is not None else []
        self.launch([str(program), *switches, *(f"--{key}={told[key]}" for key in told)])


class KMinion(Exporter):
    """It asks by franz-go; what groups have committed by the API for that, or reads it."""

    mode = "adminApi"
    lag = "kminion_kafka_consumer_group_topic_partition_lag"
    lowest = "kminion_kafka_topic_partition_low_water_mark"
    highest = "kminion_kafka_topic_partition_high_water_mark"
    counted = "kminion_kafka_consumer_group_members"
    labels = ("group_id", "topic_name", "partition_id")

    def start(self) -> None:
        program = go_cloned("redpanda-data/kminion", f"v{KMINION}")
        self.environment = {
            "KAFKA_BROKERS": self._address,
            "MINION_CONSUMERGROUPS_SCRAPEMODE": self.mode,
            "EXPORTER_HOST": "127.0.0.1",
            "EXPORTER_PORT": str(self.port),
        }
        if self._login is not None:
            self.environment |= {
                "KAFKA_TLS_ENABLED": "true",
                "KAFKA_TLS_CAFILEPATH": self._login.ca,
                "KAFKA_SASL_ENABLED": "true",
                "KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
                "KAFKA_SASL_USERNAME": self._login.user,
                "KAFKA_SASL_PASSWORD": self._login.password,
            }
        self.launch([str(program)])


class KMinionOfOffsetsTopic(KMinion):
    """It reads `__consumer_offsets`."""

    reads_offsets_topic = True
    mode = "offsetsTopic"


class Burrow(Monitor):
    """It reads `__consumer_offsets`, and keeps what it knows in memory; it wants a ZooKeeper."""

    reads_offsets_topic = True

    def __init__(self, folder: Path, address: str, login: Login | None = None) -> None:
        super().__init__(folder, address, login)
        self._zookeeper = ZooKeeper(folder)

    def start(self) -> None:
        program = go_cloned("linkedin/Burrow", f"v{BURROW}")
        self._zookeeper.start()
        login = _BURROW_LOGIN.format(**self._login._asdict()) if self._login is not None else ""
        told = {"zookeeper": self._zookeeper.address, "address": self._address, "profile": login}
        (self._folder / "burrow.toml").write_text(_BURROW.format(port=self.port, **told))
        self.launch([str(program), "--config-dir", str(self._folder)], cwd=self._folder)

    def close(self) -> None:
        super().close()
        self._zookeeper.close()

    def lags(self, topic: str) -> Lags:
        found: Lags = {}
        for group in self._told("").get("consumers", ()):
            for each in self._told(f"/{group}/lag").get("status", {}).get("partitions", ()):
                if each["topic"] == topic:
                    found[group, each["partition"]] = each["current_lag"]
        return found

    def _told(self, path: str) -> dict[str, object]:
        text = self.fetched(f"/v3/kafka/local/consumer{path}")
        told: dict[str, object] = json.loads(text) if text else {}
        return told
