"""One broker as a script sees it: requests go out, normalised answers go into a transcript.

A script is a function that is run twice, once against each broker, with a `Peer`. Whatever it
asks is compared; what it calls a set-up is only checked to have worked.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from typing import Any

from differential.compare import Step
from differential.normalise import Normaliser
from drumlin.wire.error_codes import ErrorCode, MalformedMessage
from rig.data.batches import batch
from rig.data.messages import render
from rig.data.raw import Closed, NoAnswer, RawClient
from rig.waiting import wait_until

#: Versions that the set-up uses, whatever version is under test.
_SETUP_VERSIONS = {
    "consumer_group_heartbeat": 1,
    "create_topics": 7,
    "delete_groups": 2,
    "describe_groups": 5,
    "find_coordinator": 4,
    "heartbeat": 4,
    "init_producer_id": 4,
    "list_offsets": 7,
    "metadata": 12,
    "offset_fetch": 9,
    "produce": 12,
}
_ANSWER_TIMEOUT_S = 6.0
_SETUP_TIMEOUT_S = 10.0


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

    def ask_bytes(self, data: bytes, as_version: int | None = None) -> None:
        """Send any bytes; what comes back is read as an answer of the API under test."""
        self._client.send_bytes(data)
        self.receive(version=as_version, timeout_s=2)

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
        self._script = f"{api}-{script.removeprefix('test_')}-v{version}"
        self._normaliser = Normaliser(port)
        self._connections: list[Connection] = []
        self._setup = RawClient(port, "setup")
        self._topic_ids: dict[str, uuid.UUID] = {}
        self._about = ""
        self._settled = 0
        self._main = self.connection("client")

    def close(self) -> None:
        self._setup.close()
        for each in self._connections:
            each.close()

    def reconnect(self) -> None:
        """After a restart of the broker: new connections, the same transcript."""
        self._setup = RawClient(self.port, "setup")
        self._connections.clear()
        self._main = self.connection("client")

    def version_of(self, api: str) -> int:
        """The version to use where a script names none."""
        return self.version if api == self.api else _SETUP_VERSIONS[api]

    def record(self, api: str, version: int, answer: Any) -> None:
        self.steps.append(Step(api, version, self._normaliser(answer), self._about))

    def connection(self, client_id: str) -> Connection:
        """A connection of its own, for requests that wait while others are sent."""
        connection = Connection(self, client_id)
        self._connections.append(connection)
        return connection

    def ask(self, api: str | None = None, version: int | None = None, **fields: Any) -> Any:
        """Ask on the script's main connection; see `Connection.ask`."""
        return self._main.ask(api, version, **fields)

    def ask_bytes(self, data: bytes, as_version: int | None = None) -> None:
        """See `Connection.ask_bytes`."""
        self._main.ask_bytes(data, as_version)

    def ask_quietly(self, api: str, version: int, **fields: Any) -> Any:
        """Set-up: the answer is not compared."""
        return self._setup.ask(api, version, **fields)

    def note(self, what: str) -> None:
        """Says in a report what the steps that follow are about."""
        self._about = what

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

    def subscribable_topic(self, name: str = "topic", partitions: int = 1) -> str:
        """Set-up: a topic of which the group coordinator knows, too; its full name.

        Apache Kafka's coordinator hears of topics after its broker has. Members of a group that
        is gone again have tried it.
        """
        topic = self.topic(name, partitions)
        group = f"{topic}-probe"
        self.await_coordinator(group)
        member = {"group_id": group, "member_id": "probe", "topic_partitions": None}
        joining = {"rebalance_timeout": 30_000, "topic_partitions": []}
        request = member | joining | {"member_epoch": 0, "subscribed_topic_names": [topic]}

        def assigned() -> bool:
            answer = self._ask_setup("consumer_group_heartbeat", **request)
            self._require(answer.error_code, f"joining {group}")
            request.update(member | {"member_epoch": answer.member_epoch})
            return answer.assignment is not None and bool(answer.assignment.topic_partitions)

        wait_until(assigned, f"{topic} to be assigned on {self.name}", _SETUP_TIMEOUT_S)
        self._ask_setup("consumer_group_heartbeat", **member | {"member_epoch": -1})
        gone = self._ask_setup("delete_groups", groups_names=[group]).results[0]
        self._require(gone.error_code, f"deleting {group}")
        return topic

    def await_topic(self, topic: str, partitions: int = 1) -> None:
        """Set-up: wait until a topic's partitions have leaders."""

        everything = [
            {"partition_index": index, "current_leader_epoch": -1, "timestamp": -1}
            for index in range(partitions)
        ]

        def ready() -> Any:
            found = self._ask_setup("metadata", topics=[{"name": topic}]).topics[0]
            logs = self._ask_setup(
                "list_offsets", replica_id=-1, topics=[{"name": topic, "partitions": everything}]
            ).topics[0]
            codes = [each.error_code for each in (found, *found.partitions, *logs.partitions)]
            is_ready = len(found.partitions) == partitions and not any(codes)
            return found if is_ready else None

        found = wait_until(ready, f"{topic} on {self.name}", _SETUP_TIMEOUT_S)
        self._topic_ids[topic] = self.call(found.topic_id, f"id of {topic}")

    def await_no_topic(self, topic: str) -> None:
        """Set-up: wait until a deleted topic is gone."""
        asked = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}

        def gone() -> bool:
            found = self._ask_setup("metadata", **asked).topics[0]
            return bool(found.error_code == ErrorCode.unknown_topic_or_partition)

        wait_until(gone, f"the end of {topic} on {self.name}", _SETUP_TIMEOUT_S)

    def await_rebalance(self, group: str, generation: int, member: str) -> None:
        """Set-up: wait until a member's heartbeat says that it has to join again."""
        request = {"group_id": group, "generation_id": generation, "member_id": member}

        def must_join() -> bool:
            answer = self._ask_setup("heartbeat", **request)
            return bool(answer.error_code == ErrorCode.rebalance_in_progress)

        wait_until(must_join, f"a rebalance of {group} on {self.name}", _SETUP_TIMEOUT_S)

    def await_group_state(self, group: str, state: str) -> None:
        """Set-up: wait until a group is in a state."""

        def reached() -> bool:
            return bool(
                self._ask_setup("describe_groups", groups=[group]).groups[0].group_state == state
            )

        wait_until(reached, f"{group} to be {state} on {self.name}", _SETUP_TIMEOUT_S)

    def await_producer_ids(self) -> None:
        """Set-up: wait until the broker has a block of producer ids to give out."""
        request = {"transactional_id": None, "producer_id": -1, "producer_epoch": -1}

        def given() -> bool:
            return bool(self._ask_setup("init_producer_id", **request).error_code == ErrorCode.none)

        wait_until(given, f"producer ids on {self.name}", _SETUP_TIMEOUT_S)

    def await_no_offsets(self, group: str) -> None:
        """Set-up: wait until nothing is committed any more."""
        request = {"groups": [{"group_id": group, "topics": None}]}

        def gone() -> bool:
            return not self._ask_setup("offset_fetch", **request).groups[0].topics

        wait_until(gone, f"the end of the offsets of {group} on {self.name}", _SETUP_TIMEOUT_S)

    def ask_about(self, groups: Collection[str], **fields: Any) -> None:
        """Ask ListGroups; what it says of other groups is left out."""
        answer = self._setup.ask(self.api, self.version, **fields)
        listed = render(answer)
        listed["groups"] = [each for each in listed["groups"] if each["group_id"] in groups]
        self.record(self.api, self.version, listed)

    def settle(self) -> None:
        """Set-up: let a change of configuration reach the broker: it does so in order.

        Kafka's controller answers before its brokers have heard of a change; a topic that is
        created afterwards and is there shows that they have.
        """
        self._settled += 1
        self.topic(f"settled-{self._settled}")

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

    def await_coordinator(self, group: str) -> None:
        """Set-up: wait until a group's coordinator is up and has loaded the group."""
        request = {"key_type": 0, "coordinator_keys": [group]}

        def ready() -> bool:
            found = self._ask_setup("find_coordinator", **request).coordinators[0]
            if found.error_code != ErrorCode.none:
                return False
            loaded = self._ask_setup("describe_groups", groups=[group]).groups[0]
            return bool(loaded.error_code == ErrorCode.none)

        wait_until(ready, f"the coordinator of {group} on {self.name}", _SETUP_TIMEOUT_S)

    def _ask_setup(self, api: str, **fields: Any) -> Any:
        fields = {"timeout": 10_000} | fields if api == "create_topics" else fields
        return self._setup.ask(api, _SETUP_VERSIONS[api], **fields)

    def _require(self, code: ErrorCode, what: str) -> None:
        assert code == ErrorCode.none, f"set-up on {self.name}: {what}: {code.name}"
