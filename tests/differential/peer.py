"""One broker as a script sees it: requests go out, normalised answers go into a transcript.

A script is a function that is run twice, once against each broker, with a `Peer`. Whatever it
asks is compared; what it calls a set-up is only checked to have worked.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from differential.compare import Step
from differential.normalise import Normaliser
from drumlin.wire.errors import ErrorCode, MalformedMessage
from rig.batches import batch
from rig.messages import render
from rig.raw import Closed, NoAnswer, RawClient
from rig.waiting import wait_until

#: Versions that the set-up uses, whatever version is under test.
_SETUP_VERSIONS = {"create_topics": 7, "metadata": 12, "produce": 12, "find_coordinator": 4}
_ANSWER_TIMEOUT_S = 20.0


class Connection:
    """One connection of a script; its answers go into the script's transcript."""

    def __init__(self, peer: Peer, client_id: str) -> None:
        self._peer = peer
        self.client_id = client_id
        self._client = RawClient(peer.port, client_id, _ANSWER_TIMEOUT_S)

    def ask(self, api: str | None = None, version: int | None = None, **fields: Any) -> Any:
        """Send a request, by default one to the API and version under test; the answer."""
        api = api or self._peer.api
        version = self._peer.version_of(api) if version is None else version
        try:
            self._client.send(api, version, **fields)
        except Closed:
            return self._record(api, version, "(the connection was closed)")
        return self.receive(api, version)

    def send(self, api: str | None = None, version: int | None = None, **fields: Any) -> None:
        """Send only; `receive` must follow, or the script means that nothing comes."""
        api = api or self._peer.api
        version = self._peer.version_of(api) if version is None else version
        self._client.send(api, version, **fields)

    def receive(
        self, api: str | None = None, version: int | None = None, timeout_s: float | None = None
    ) -> Any:
        """The next answer, raw; its normalised form goes into the transcript."""
        api = api or self._peer.api
        version = self._peer.version_of(api) if version is None else version
        self._client.socket.settimeout(timeout_s or _ANSWER_TIMEOUT_S)
        try:
            message = self._client.receive(api, version)
        except Closed:
            self._reconnect()
            return self._record(api, version, "(the connection was closed)")
        except NoAnswer:
            self._reconnect()
            return self._record(api, version, "(no answer)")
        except MalformedMessage as error:
            return self._record(api, version, f"(unreadable: {error})")
        self._record(api, version, render(message))
        return message

    def exchange_bytes(self, data: bytes, timeout_s: float = 0.5) -> None:
        """Send any bytes; what is recorded is the frame that comes back, or that none does."""
        try:
            self._client.send_bytes(data)
            answer: Any = self._client.receive_frame(timeout_s).hex()
        except Closed:
            answer = "(the connection was closed)"
        except NoAnswer:
            answer = "(no answer)"
        self._record("bytes", 0, answer)
        self._reconnect()

    def close(self) -> None:
        self._client.close()

    def _reconnect(self) -> None:
        self._client.close()
        self._client = RawClient(self._peer.port, self.client_id, _ANSWER_TIMEOUT_S)

    def _record(self, api: str, version: int, answer: Any) -> None:
        self._peer.record(api, version, answer)


class Peer:
    """A broker, the API under test, and what a script has learnt so far."""

    def __init__(self, name: str, port: int, script: str, api: str, version: int) -> None:
        self.name = name
        self.port = port
        self.api = api
        self.version = version
        self.steps: list[Step] = []
        self._script = f"{script.removeprefix('test_')}-v{version}"
        self._normaliser = Normaliser(port)
        self._connections: list[Connection] = []
        self._setup = RawClient(port, "setup")
        self._topic_ids: dict[str, uuid.UUID] = {}
        self._main = self.connection("client")

    def close(self) -> None:
        self._setup.close()
        for each in self._connections:
            each.close()

    def version_of(self, api: str) -> int:
        """The version to use where a script names none."""
        return self.version if api == self.api else _SETUP_VERSIONS[api]

    def record(self, api: str, version: int, answer: Any) -> None:
        self.steps.append(Step(api, version, self._normaliser(answer)))

    def connection(self, client_id: str) -> Connection:
        """A connection of its own, for requests that wait while others are sent."""
        connection = Connection(self, client_id)
        self._connections.append(connection)
        return connection

    def ask(self, api: str | None = None, version: int | None = None, **fields: Any) -> Any:
        """Ask on the script's main connection; see `Connection.ask`."""
        return self._main.ask(api, version, **fields)

    def exchange_bytes(self, data: bytes) -> None:
        """See `Connection.exchange_bytes`."""
        self._main.exchange_bytes(data)

    def unique(self, name: str) -> str:
        """A name that no other script uses; the same on both brokers."""
        unique = f"{self._script}-{name}"
        self._normaliser.keep(unique)
        return unique

    def keep(self, value: Any) -> Any:
        """Compare this value as it is, although brokers usually choose it."""
        self._normaliser.keep(value)
        return value

    def call(self, value: Any, name: str) -> Any:
        """Give a value that the broker has chosen a name for comparing."""
        self._normaliser.know(value, name)
        return value

    def topic(
        self, name: str = "topic", partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> str:
        """Set-up: a topic that is ready for use; its full name."""
        unique = self.unique(name)
        settings = [{"name": key, "value": value} for key, value in (configs or {}).items()]
        topic = {"name": unique, "num_partitions": partitions, "replication_factor": 1}
        answer = self._ask_setup("create_topics", topics=[topic | {"configs": settings}])
        self._require(answer.topics[0].error_code, f"creating {unique}")
        self.await_topic(unique, partitions)
        return unique

    def await_topic(self, topic: str, partitions: int = 1) -> None:
        """Set-up: wait until a topic's partitions have leaders."""

        def ready() -> Any:
            found = self._ask_setup("metadata", topics=[{"name": topic}]).topics[0]
            codes = [found.error_code, *(each.error_code for each in found.partitions)]
            is_ready = len(found.partitions) == partitions and not any(codes)
            return found if is_ready else None

        found = wait_until(ready, f"{topic} on {self.name}")
        self._topic_ids[topic] = self.call(found.topic_id, f"id of {topic}")

    def topic_id(self, topic: str) -> uuid.UUID:
        return self._topic_ids[topic]

    def topic_fields(self, topic: str) -> dict[str, Any]:
        """Name and id under the names that requests have for them: each version takes its own."""
        return {"name": topic, "topic_id": self._topic_ids.get(topic)}

    def produce(self, topic: str, *values: bytes, partition: int = 0, **fields: Any) -> int:
        """Set-up: append one batch; its base offset."""
        return self.produce_encoded(topic, batch(*values, **fields), partition)

    def produce_encoded(self, topic: str, data: bytes, partition: int = 0) -> int:
        """Set-up: append one batch that is encoded already; its base offset."""
        data_of_partition = {"index": partition, "records": data}
        answer = self._ask_setup(
            "produce",
            acks=-1,
            timeout=10_000,
            topic_data=[{"name": topic, "partition_data": [data_of_partition]}],
        )
        result = answer.responses[0].partition_responses[0]
        self._require(result.error_code, f"producing to {topic}")
        return int(result.base_offset)

    def await_coordinator(self, group: str, key_type: int = 0) -> None:
        """Set-up: wait until a group's coordinator is up."""
        request = {"key_type": key_type, "coordinator_keys": [group]}

        def ready() -> bool:
            answer = self._ask_setup("find_coordinator", **request)
            return answer.coordinators[0].error_code == ErrorCode.none

        wait_until(ready, f"the coordinator of {group} on {self.name}")

    def _ask_setup(self, api: str, **fields: Any) -> Any:
        fields = {"timeout": 10_000} | fields if api == "create_topics" else fields
        return self._setup.ask(api, _SETUP_VERSIONS[api], **fields)

    def _require(self, code: ErrorCode, what: str) -> None:
        assert code == ErrorCode.none, f"set-up on {self.name}: {what}: {code.name}"
