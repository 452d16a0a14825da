"""A broker where the users of `users.py` have their rights: a Drumlin, or an Apache Kafka."""

from __future__ import annotations

import base64
import contextlib
import functools
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from differential.rights.users import FORBIDDEN, PREFIX, PUBLIC, ROOT, UNPRODUCED, USERS
from drumlin.wire.error_codes import ErrorCode
from rig.brokers.secured_drumlin import SecuredDrumlin, log_in, secured_properties
from rig.data.batches import batch
from rig.data.raw import RawClient
from rig.ports import free_ports
from rig.servers.apache_kafka import ApacheKafka
from rig.waiting import wait_until

#: What users may have rights on, and what they have none on; what is missing has names alike.
KNOWN, OTHER = f"{PREFIX}topic", "other"
MISSING, OTHER_MISSING = f"{PREFIX}missing", "missing"
KNOWN_GROUP, OTHER_GROUP = f"{PREFIX}group", "other-group"
GROUPS: Final = (KNOWN_GROUP, f"{PREFIX}no-group", OTHER_GROUP, "no-group")
THERE: Final = (KNOWN, OTHER, PUBLIC, FORBIDDEN)
#: Each topic, and names of topics that are not there.
TOPICS: Final = (*THERE, MISSING, OTHER_MISSING)
#: Those to append to: all tests find the others as they were made.
PRODUCED: Final = (f"{PREFIX}produced", "produced", UNPRODUCED)
#: Groups of consumers, and their topics.
CONSUMERS: Final = {"a-readers": KNOWN, "a-others": OTHER, "readers": KNOWN}
#: The same of share groups; and transactions that are open.
SHARERS: Final = {"a-sharers": KNOWN, "a-other-sharers": OTHER, "sharers": KNOWN}
SHARING: Final = f"{PREFIX}sharing-all"
OPEN: Final = ("a-open", "open")
_RECORDS: Final = 3
_MISSING_ID: Final = uuid.UUID(int=7)
_NOT_CREATED: Final = {"allow_auto_topic_creation": False}


class Place:
    """One server, its administrator's connection, and one for each user."""

    def __init__(
        self, server: SecuredDrumlin | KafkaWithUsers, acls: Sequence[dict[str, Any]]
    ) -> None:
        """`acls`: those that there are at first."""
        self.server = server
        self._acls = acls
        self.topic_ids: dict[str, uuid.UUID] = {}
        self._users: dict[str, RawClient] = {}
        self._tokens: dict[str, Any] = {}

    @functools.cached_property
    def admin(self) -> RawClient:
        """The administrator's connection."""
        return RawClient(self.server.port, "admin")

    def start(self) -> None:
        """Start it, and have ready what all tests ask about."""
        self.server.start()
        for topic in THERE:
            self.make_topic(topic)
            self.fill(topic)
        self.replace_acls(self._acls)
        for group in (KNOWN_GROUP, OTHER_GROUP):
            self.commit(group)
        self._await_coordinators()

    def close(self) -> None:
        for each in (*self._users.values(), *filter(None, [vars(self).get("admin")])):
            each.close()
        self.server.close()

    def user(self, name: str) -> RawClient:
        """The connection of a user, who logs in the first time."""
        if name not in self._users:
            self._users[name] = log_in(self.server.login_port, name)
        return self._users[name]

    def reconnect(self, name: str) -> None:
        """Let a user log in anew the next time: the connection was closed."""
        self._users.pop(name).close()

    def make_topic(self, name: str) -> uuid.UUID:
        """Make a topic, unless it is there, and wait for it; its id."""
        topic = {"name": name, "num_partitions": 1, "replication_factor": 1}
        answer = self.admin.ask("create_topics", 7, topics=[topic], timeout=10_000)
        is_there = (ErrorCode.none, ErrorCode.topic_already_exists)
        assert answer.topics[0].error_code in is_there, answer

        def ready() -> Any:
            found = self.admin.ask("metadata", 12, topics=[{"name": name}], **_NOT_CREATED).topics[
                0
            ]
            partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
            asked = {"name": name, "partitions": [partition]}
            log = self.admin.ask("list_offsets", 7, replica_id=-1, topics=[asked]).topics[0]
            has_leader = bool(found.partitions) and not found.error_code
            return found if has_leader and not log.partitions[0].error_code else None

        self.topic_ids[name] = wait_until(ready, f"the topic {name}", 10).topic_id
        return self.topic_ids[name]

    @property
    def ids(self) -> list[uuid.UUID]:
        """The ids of `THERE`, and one of no topic."""
        return [*(self.topic_ids[name] for name in THERE), _MISSING_ID]

    def have_empty_topics(self, *names: str) -> None:
        """Have topics in which nothing was ever appended."""
        there = [name for name in names if name in self.topic_ids]
        topics = [{"name": name} for name in there]
        self.admin.ask("delete_topics", 6, topics=topics, timeout=10_000)
        for name in there:
            self.await_no_topic(name)
        for name in names:
            self.make_topic(name)

    def have_topic(self, name: str) -> None:
        """Make a topic that may have been deleted."""
        found = self.admin.ask("metadata", 12, topics=[{"name": name}], **_NOT_CREATED).topics[0]
        if name not in self.topic_ids or found.error_code:
            self.make_topic(name)

    def await_no_topic(self, name: str) -> None:
        """Wait until the broker has heard that a topic is deleted."""

        def gone() -> bool:
            asked = {"topics": [{"name": name}], **_NOT_CREATED}
            found = self.admin.ask("metadata", 12, **asked).topics[0]
            return bool(found.error_code == ErrorCode.unknown_topic_or_partition)

        wait_until(gone, f"the end of {name}", 20)

    def have_consumer_groups(self) -> None:
        """Have groups with one member each: of a topic that users may see, and of another."""
        for group, topic in CONSUMERS.items():
            joining = {"member_epoch": 0, "rebalance_timeout": 60_000, "topic_partitions": []}
            member = {"group_id": group, "member_id": "one", **joining}
            asked = member | {"subscribed_topic_names": [topic]}
            self._join("consumer_group_heartbeat", asked)

    def have_share_groups(self) -> None:
        """The same of share groups."""
        for group, topic in SHARERS.items():
            member = {"group_id": group, "member_id": "one", "member_epoch": 0}
            self._join("share_group_heartbeat", member | {"subscribed_topic_names": [topic]})
        member = {"group_id": SHARING, "member_id": "one", "member_epoch": 0}
        self._join("share_group_heartbeat", member | {"subscribed_topic_names": [*THERE]})
        self._await_shares()

    def _await_shares(self) -> None:
        """Wait until members can fetch from all topics: the first to ask gets no answer of them."""
        partitions = [{"partition_index": 0}]
        topics = [{"topic_id": self.topic_ids[name], "partitions": partitions} for name in THERE]
        member = {"group_id": SHARING, "member_id": str(uuid.UUID(int=5)), "topics": topics}
        limits = {"max_bytes": 1 << 20, "max_records": 10, "batch_size": 10}

        def ready() -> bool:
            asked = member | limits | {"share_session_epoch": 0}
            found = self.admin.ask("share_fetch", 2, **asked).responses
            self.admin.ask("share_fetch", 2, **asked | {"share_session_epoch": -1, "topics": []})
            codes = [part.error_code for topic in found for part in topic.partitions]
            return codes == [ErrorCode.none] * len(THERE)

        wait_until(ready, "shares of all topics", 20)

    def _await_coordinators(self) -> None:
        """Wait for those of transactions and of shares, and for producers' ids."""
        for name in OPEN:
            self._begin_transaction(name)
        share_key = f"{KNOWN_GROUP}:{_text(self.topic_ids[KNOWN])}:0"
        asked = {"key_type": 2, "coordinator_keys": [share_key]}

        def found() -> bool:
            (coordinator,) = self.admin.ask("find_coordinator", 6, **asked).coordinators
            return not coordinator.error_code

        wait_until(found, "the coordinator of shares", 20)

    def _begin_transaction(self, name: str) -> None:
        """Have an open transaction with two topics."""
        producer = self._producer(name)
        topics = [{"name": topic, "partitions": [0]} for topic in (KNOWN, OTHER)]
        added = {
            "v3_and_below_transactional_id": name,
            "v3_and_below_producer_id": producer.producer_id,
            "v3_and_below_producer_epoch": producer.producer_epoch,
            "v3_and_below_topics": topics,
        }
        self.admin.ask("add_partitions_to_txn", 3, **added)

    def _producer(self, name: str) -> Any:
        """The producer id and epoch of a transactional id."""
        asked = {"transactional_id": name, "transaction_timeout": 600_000}
        asked |= {"producer_id": -1, "producer_epoch": -1}

        def begun() -> Any:
            self.admin.ask("find_coordinator", 4, key_type=1, coordinator_keys=[name])
            answer = self.admin.ask("init_producer_id", 4, **asked)
            return None if answer.error_code else answer

        return wait_until(begun, f"the producer of {name}", 20)

    @contextlib.contextmanager
    def transaction(self, name: str, group: str) -> Iterator[dict[str, Any]]:
        """A transaction that has a group's offsets, and is aborted in the end.

        Returns it as requests name it.
        """
        producer = self._producer(name)
        whose = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
        whose["transactional_id"] = name
        self._await_coordinator_of(group)

        def ends(api: str, version: int, **fields: Any) -> Callable[[], bool]:
            return lambda: not self.admin.ask(api, version, **whose, **fields).error_code

        wait_until(ends("add_offsets_to_txn", 4, group_id=group), f"offsets in {name}", 20)
        yield whose
        wait_until(ends("end_txn", 4, committed=False), f"the end of {name}", 20)

    def _await_coordinator_of(self, group: str) -> None:
        """Wait until the coordinator of a group has loaded it."""

        def loaded() -> bool:
            self.admin.ask("find_coordinator", 4, key_type=0, coordinator_keys=[group])
            (found,) = self.admin.ask("describe_groups", 5, groups=[group]).groups
            return not found.error_code

        wait_until(loaded, f"the coordinator of {group}", 20)

    def grant(self, acl: dict[str, Any]) -> None:
        """Have one more ACL."""
        self.admin.ask("create_acls", 3, creations=[acl])
        asked = {"resource_type_filter": 1, "pattern_type_filter": 1, "permission_type": 1}
        asked |= {"operation": 1, "principal_filter": acl["principal"]}
        wait_until(lambda: self.admin.ask("describe_acls", 3, **asked).resources, "an ACL", 20)

    def have_token(self, owner: str) -> Any:
        """Have a token of a user that asks for nothing himself."""
        if owner not in self._tokens:
            whose = {"owner_principal_type": "User", "owner_principal_name": owner}
            asked = {"renewers": [], "max_lifetime": 86_400_000}
            answer = self.user(ROOT).ask("create_delegation_token", 3, **asked, **whose)
            assert not answer.error_code, answer
            self.await_token(answer.token_id)
            self._tokens[owner] = answer
        return self._tokens[owner]

    def await_token(self, token_id: str) -> None:
        """Wait until the broker knows a token."""

        def known() -> bool:
            found = self.user(ROOT).ask("describe_delegation_token", 3, owners=None)
            return token_id in {each.token_id for each in found.tokens}

        wait_until(known, "a token", 20)

    def end_token(self, hmac: bytes) -> None:
        """End a token that the super user may renew, and wait for that."""
        root = self.user(ROOT)
        ended = root.ask("expire_delegation_token", 2, hmac=hmac, expiry_time_period=-1)
        assert not ended.error_code, ended

        def gone() -> bool:
            found = root.ask("describe_delegation_token", 3, owners=None)
            return hmac not in {each.hmac for each in found.tokens}

        wait_until(gone, "the end of a token", 20)

    def _join(self, api: str, asked: dict[str, Any]) -> None:
        def has_topic() -> bool:
            answer = self.admin.ask(api, 1, **asked)
            given = () if answer.assignment is None else answer.assignment.topic_partitions
            return len(given) == len(asked["subscribed_topic_names"])

        wait_until(has_topic, f"an assignment by {api}", 20)

    def fill(self, topic: str) -> None:
        """Append a few records."""
        values = [b"%d" % number for number in range(_RECORDS)]
        partition = {"index": 0, "records": batch(*values)}
        data = [{"name": topic, "partition_data": [partition]}]
        answer = self.admin.ask("produce", 12, acks=-1, timeout=10_000, topic_data=data)
        assert not answer.responses[0].partition_responses[0].error_code, answer

    def commit(self, group: str, *topics: str) -> None:
        """Commit offset 1 of topics in a group that has no members."""
        partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
        committed = [{"name": name, "partitions": [partition]} for name in topics or THERE]
        whose = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": ""}

        def done() -> bool:
            self.admin.ask("find_coordinator", 4, key_type=0, coordinator_keys=[group])
            answer = self.admin.ask("offset_commit", 9, **whose, topics=committed)
            codes = [part.error_code for topic in answer.topics for part in topic.partitions]
            return not any(codes)

        wait_until(done, f"offsets of {group}", 20)

    def replace_acls(self, wanted: Sequence[dict[str, Any]]) -> None:
        """Have these ACLs, and no others."""
        every = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1}
        every["permission_type"] = 1

        def await_count(count: int) -> None:
            def there() -> bool:
                found = self.admin.ask("describe_acls", 3, **every).resources
                return sum(len(each.acls) for each in found) == count

            wait_until(there, f"{count} ACLs", 20)

        self.admin.ask("delete_acls", 3, filters=[every])
        await_count(0)
        answer = self.admin.ask("create_acls", 3, creations=wanted)
        refused = [each for each in answer.results if each.error_code]
        assert not refused, refused
        await_count(len(wanted))


def _text(topic_id: uuid.UUID) -> str:
    """An id as Kafka writes it."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


class KafkaWithUsers(ApacheKafka):
    """An Apache Kafka with the listeners of a `SecuredDrumlin`."""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        super().__init__(directory, {})
        (self.login_port,) = free_ports(1)
        properties = secured_properties(self.port, self.login_port, [*USERS])
        controller = f"CONTROLLER://127.0.0.1:{self.place.controller_port}"
        properties["listeners"] += f",{controller}"
        properties["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
        self.settings = properties | dict(settings)


def drumlin_with_users(directory: Path, settings: Mapping[str, str]) -> SecuredDrumlin:
    """A Drumlin with the same."""
    return SecuredDrumlin(directory, settings, users=[*USERS])


def close_all(*places: Place) -> None:
    """Close them, also where one was never started."""
    with contextlib.ExitStack() as stack:
        for each in places:
            stack.callback(each.close)
