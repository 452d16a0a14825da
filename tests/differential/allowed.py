"""What must differ between Drumlin and Apache Kafka, each with its reason: the whole list."""

from __future__ import annotations

import re
from typing import NamedTuple

from differential.compare import Difference
from drumlin.broker.apis.served import SERVED
from drumlin.wire.messages import API_KEYS


class Allowed(NamedTuple):
    """Differences in fields whose path matches, in answers to one API, or to any."""

    path: str  # a regular expression for the whole path
    reason: str
    told: str  # words of docs/compatibility.md, where a user finds it
    api: str | None = None  # a regular expression
    about: str = r".*"  # a regular expression for the script's note

    def covers(self, difference: Difference) -> bool:
        return all(
            re.fullmatch(pattern, text)
            for pattern, text in (
                (self.path, difference.path),
                (self.about, difference.about),
                (self.api or ".*", difference.api),
            )
        )


_SERVED = "|".join(str(API_KEYS[each]) for each in SERVED)
#: Features of Kafka's own inside, and of what is not served.
_OWN_FEATURES = "|".join(
    re.escape(feature)
    for feature in (
        "kraft.version",
        "metadata.version",
        "streams.version",
    )
)
_OWN_SETTINGS = "|".join(
    re.escape(key)
    for key in (
        "advertised.listeners",
        "controller.listener.names",
        "controller.quorum.voters",
        "listener.security.protocol.map",
        "listeners",
        "log.dirs",
        "process.roles",
    )
)
_OWN_DEFAULTS = "|".join(
    re.escape(key)
    for key in (
        "node.id",
        "offsets.topic.replication.factor",
        "share.coordinator.state.topic.min.isr",
        "share.coordinator.state.topic.replication.factor",
        "socket.receive.buffer.bytes",
        "socket.send.buffer.bytes",
        "transaction.state.log.min.isr",
        "transaction.state.log.replication.factor",
    )
)

ALLOWED = (
    Allowed(
        rf"api_keys\[(?!({_SERVED})\]).*",
        "what is not served is not advertised",
        told="lists no API that is not served",
    ),
    Allowed(
        r".*",
        "an unknown topic id is that topic's error; in Apache Kafka the whole request fails",
        api="share_fetch",
        about="an unknown topic id",
        told="only that topic has an error",
    ),
    Allowed(
        r"topics\[.*\]\.partitions\[\d+ #\d+\].*",
        "a partition is described once: it may have a million producers, and be named as often",
        api="describe_producers",
        told="a partition is described once, however often it is named",
    ),
    Allowed(
        rf"(supported_features|finalized_features)\[({_OWN_FEATURES})\].*",
        "KRaft and its metadata log are not here, nor are streams groups",
        told="nor are there streams groups",
    ),
    Allowed(
        r"error_(code|message)|results\[.*\]",
        "what is supported is on, and KRaft is not here: a level would be taken for nothing",
        api="update_features",
        about="(a lower level|a feature that is not here), .*",
        told="refuses a lower level",
    ),
    Allowed(
        r"topics\[0\]\.partitions\[0\]\.(leader_epoch|high_watermark"
        r"|current_voters\[1\]\.(log_end_offset|last_fetch_timestamp|last_caught_up_timestamp))"
        r"|nodes\[1\]\.listeners\[CONTROLLER\]",
        "there is no log of the metadata, whose offsets could be told, and no listener for it",
        api="describe_quorum",
        told="the controller is the leader and only voter",
    ),
    Allowed(
        r".*\.configs\[min\.insync\.replicas\]\.(config_source|synonyms.*)"
        r"|results\[4 \]\.configs\[min\.insync\.replicas\]",
        "KRaft writes a cluster-wide default of this key when a cluster is formatted",
        told="shows `min.insync.replicas` as a default",
    ),
    Allowed(
        r".*",
        "Kafka's eligible leader replicas guard this key: it cannot be set for one broker, "
        "nor deleted for all",
        api="incremental_alter_configs",
        about=r"'1?' min\.insync\.replicas.*",
        told="accepts any `min.insync.replicas`",
    ),
    Allowed(
        r"subscription_id",
        "it has no meaning but that it changes",
        api="get_telemetry_subscriptions",
        told="numbers subscriptions in its own way",
    ),
    Allowed(
        r".*\.documentation",
        "keys are described where they have an effect here",
        told="documents only the keys that have an effect",
    ),
    Allowed(
        rf"results\[4 .*\.configs\[({_OWN_SETTINGS})\].*",
        "each broker has its own addresses and directories, and KRaft a controller's; "
        "listeners of a running Drumlin cannot be changed",
        api="describe_configs",
        told="addresses and directories are each broker's own",
    ),
    Allowed(
        rf"results\[4 .*\.configs\[({_OWN_DEFAULTS})\]\.synonyms.*",
        "with the embedded store there is one broker: internal topics have one replica by default; "
        "and socket buffers have another default",
        api="describe_configs",
        told="internal topics have one replica by default",
    ),
    Allowed(
        r".*\.configs\[socket\.(send|receive)\.buffer\.bytes\]\.value",
        "socket buffers are sized by the system unless configured: large fetches are faster so",
        api="describe_configs",
        told="`socket.send.buffer.bytes` and `socket.receive.buffer.bytes` are -1",
    ),
    Allowed(
        r"groups\[.* #2\]",
        "what is asked for twice is answered once: names are short, answers may be long",
        told="is answered once; Kafka answers it as often as it is named",
    ),
    Allowed(
        r"",
        "text that is not UTF-8 is malformed: with its bytes replaced it would be another's name",
        about="a topic that is not UTF-8",
        told="text that is not UTF-8 is malformed",
    ),
    Allowed(
        r".*",
        "Kafka stores offset deltas as they are, or fails if it has to compress; "
        "readers trip over them, so they are renumbered",
        about="(offset deltas (twice the same|that start at 1)|a negative offset delta).*",
        told="offset deltas that repeat or do not start at 0 are corrected",
    ),
    Allowed(
        r".*",
        "Kafka takes any negative size for null; only -1 means it",
        about="a key size of -2.*",
        told="a key size of -2 is refused",
    ),
    Allowed(
        r".*",
        "Kafka's code for these fails, which is told as UNKNOWN_SERVER_ERROR",
        about="((length beyond the limit|a varint without an end).*"
        "|(a negative timestamp|a producer id of -2), compressed again"
        "|a negative limit|an isolation level that does not exist)",
        told="make Kafka's code fail",
    ),
    Allowed(
        r".*",
        "of two batches for one partition in one request Kafka forgets the first without a word; "
        "both are appended",
        about="the same partition twice",
        api="produce",
        told="both batches are appended",
    ),
    Allowed(
        r".*\.leader_epoch",
        "each stop and start of Kafka's is an election; with the embedded store there is none",
        about="after a restart",
        told="stay the same over a clean restart",
    ),
    Allowed(
        r".*\.error_code",
        "a follower may lack what its leader has: whoever asks for more is told to come again",
        api="fetch",
        about="beyond the end of a follower",
        told="OFFSET_NOT_AVAILABLE for an offset that it does not have yet",
    ),
    Allowed(
        r"topics\[.*\]",
        "a broker that is gone is not registered any more, and gets nothing new",
        api="create_topics",
        about="topics that are created meanwhile",
        told="counts the brokers that are alive",
    ),
    Allowed(
        r".*\.error_code",
        "as with every other API, a broker without a replica says that another one leads",
        api="write_txn_markers",
        about="markers for a broker without a replica",
        told="to a broker without a replica is NOT_LEADER_OR_FOLLOWER",
    ),
    Allowed(
        r".*\.error_code",
        "a session of Kafka's still knows the name of a topic id that is gone, and tells "
        "UNKNOWN_TOPIC_OR_PARTITION in place of UNKNOWN_TOPIC_ID; clients take them alike",
        about="the topic is gone",
        api="fetch",
        told="in a session whose topic was deleted",
    ),
    Allowed(
        r".*\.(offset|timestamp)",
        "Kafka still tells the largest timestamp when its record has been deleted, with an offset "
        "that cannot be fetched; it is looked for among the records that are left",
        about="the newest record is deleted",
        api="list_offsets",
        told="finds it among the records that are left",
    ),
    Allowed(
        r"responses\[4 .*\]\.error_(code|message)",
        "who has no right on the brokers learns that first, and not what the request would come to",
        api="(incremental_)?alter_configs",
        about=r"as .*",
        told="the right on the brokers first",
    ),
    Allowed(
        r"(topics|results)\[.*\]",
        "a refusal tells nothing of what was asked for: Kafka has blank entries there",
        api="list_partition_reassignments|describe_user_scram_credentials",
        about=r"as .*",
        told="without the right have no entries",
    ),
    Allowed(
        r"",
        "Kafka fails over a null that its schema allows, and forgets the request",
        api="produce",
        about=r"as .*: null for records",
        told="with null in place of records is INVALID_RECORD",
    ),
    Allowed(
        r"",
        "Kafka fails over a null that its schema allows, and forgets the request",
        api="describe_user_scram_credentials",
        about=r"as .*: null for all users",
        told="for all users, without the right: CLUSTER_AUTHORIZATION_FAILED",
    ),
    Allowed(
        r"",
        "Kafka fails over a resource that is named twice, and forgets the request",
        api="alter_configs",
        about=r"as .*: a resource twice",
        told="with a resource that is named twice is INVALID_REQUEST",
    ),
    Allowed(
        r"results\[.*\].*",
        "the changes of a user are made together: no reason to refuse one for each mechanism",
        api="(alter|describe)_user_scram_credentials",
        about=r"as .*: two mechanisms of one user",
        told="changes a user's credentials for both mechanisms",
    ),
    Allowed(
        r"responses\[.*\]",
        "an id would tell whether there is such a topic",
        api="alter_share_group_offsets",
        about=r"as .*: a group without members",
        told="has no id for a topic that may not be read",
    ),
    Allowed(
        r".*",
        "a login by such a token would be that of the user of the same name, who was not asked; "
        "a type that is null makes Kafka fail",
        api="create_delegation_token",
        about=r"as .*: an owner of the type .*",
        told="makes tokens for users only",
    ),
    Allowed(
        r".*",
        "who asks for something else in the middle of a login is turned away: with the code, where "
        "the answer has a place for one, and nothing of what was asked is read",
        about="after a handshake",
        told="in the middle of a login",
    ),
)


def is_allowed(difference: Difference) -> bool:
    """Whether the list says why this difference is there."""
    return any(each.covers(difference) for each in ALLOWED)
