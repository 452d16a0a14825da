"""`allow.everyone.if.no.acl.found`: what no ACL is about, everybody may do, and nothing else."""

from __future__ import annotations

from typing import Any, Final

import pytest

from differential.compare import Step
from differential.rights.asking import Names, Person, Places
from differential.rights.places import (
    GROUPS,
    KNOWN_GROUP,
    MISSING,
    OPEN,
    OTHER,
    OTHER_GROUP,
    OTHER_MISSING,
    TOPICS,
    Place,
)
from differential.rights.users import NOBODY, OWNER, ROOT, Rule, literal, of_all_kinds
from drumlin.broker.rights.acls import ANY_NAME, EVERYBODY, Kind, Operation, Pattern, Permission

_ASKERS: Final = (NOBODY, OWNER, ROOT)
_DENY: Final = Permission.DENY
_OF_OWNER: Final = f"User:{OWNER}"
_ANY: Final = {"pattern": Pattern.LITERAL, "name": ANY_NAME}
_DESCRIBING: Final = [
    rule._replace(
        operation=Operation.DESCRIBE_TOKENS if rule.kind is Kind.USER else Operation.DESCRIBE
    )
    for rule in of_all_kinds()
]
#: The ACLs that there are: of a principal that some of those who ask are not.
_ACLS: Final[dict[str, tuple[str, list[Rule]]]] = {
    "none": (_OF_OWNER, []),
    "literal": (_OF_OWNER, literal()),
    "literal denying": (_OF_OWNER, literal(permission=_DENY)),
    "prefixed": (_OF_OWNER, of_all_kinds()),
    "prefixed denying": (_OF_OWNER, of_all_kinds(permission=_DENY)),
    "wildcard": (_OF_OWNER, of_all_kinds(**_ANY)),
    "prefixed star": (_OF_OWNER, of_all_kinds(name=ANY_NAME)),
    "describing": (_OF_OWNER, _DESCRIBING),
    "of everybody": (EVERYBODY, _DESCRIBING),
    "of topics": (_OF_OWNER, [Rule(Kind.TOPIC, **_ANY)]),
}
_NO_PRODUCER: Final = {"producer_id": -1, "producer_epoch": -1}
_NO_GROUP: Final = [{"principal_type": "Group", "principal_name": "g"}]


@pytest.mark.kafka
@pytest.mark.recorded
@pytest.mark.parametrize("rules", _ACLS)
def test_where_all_is_allowed(open_places: Places, rules: str) -> None:
    principal, acls = _ACLS[rules]
    wanted = [each.creation(principal) for each in acls]

    def run(_: str, place: Place) -> tuple[list[Step], Any]:
        told: list[Step] = []
        names = Names(place.server.login_port)
        for topic, topic_id in place.topic_ids.items():
            names.know(topic_id, f"id of {topic}")
        place.replace_acls(
            [each for number, each in enumerate(wanted) if each not in wanted[:number]]
        )
        for user in _ASKERS:
            person = Person(user, place, "metadata", 13, told, names)
            person.note(rules)
            _ask_of_topics(person)
            _ask_of_groups(person)
            _ask_of_transactions(person)
            _ask_of_the_cluster(person)
            _ask_of_tokens(person)
        return told, None

    what = f"{rules} ACLs, where all may do what none is about"
    open_places.compare(__name__, f"test_where_all_is_allowed[{rules}]", run, what)


def _ask_of_topics(person: Person) -> None:
    named = [{"name": name} for name in TOPICS]
    asked = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": True}
    person.ask("metadata", topics=named, **asked)
    ids = person.place.ids
    data = [{"topic_id": each, "partition_data": [{"index": 0, "records": b""}]} for each in ids]
    person.ask("produce", acks=1, timeout=1000, topic_data=data)
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    part |= {"current_leader_epoch": -1, "log_start_offset": -1, "last_fetched_epoch": -1}
    limits = {"max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20, "session_epoch": -1}
    wanted = [{"topic_id": each, "partitions": [part]} for each in ids]
    person.ask("fetch", replica_id=-1, topics=wanted, **limits)
    shape = {"num_partitions": 1, "replication_factor": 1}
    created = [{"name": name, **shape} for name in (MISSING, OTHER_MISSING)]
    person.ask("create_topics", topics=created, timeout=1000, validate_only=True)


def _ask_of_groups(person: Person) -> None:
    person.ask("describe_groups", groups=GROUPS, include_authorized_operations=True)
    committed = [{"topic_id": each, "partition_indexes": [0]} for each in person.place.ids]
    groups = [{"group_id": each, "topics": committed} for each in GROUPS]
    person.ask("offset_fetch", groups=groups)
    for group in (KNOWN_GROUP, OTHER_GROUP):
        person.ask("heartbeat", group_id=group, member_id="m", generation_id=3)


def _ask_of_transactions(person: Person) -> None:
    person.ask("describe_transactions", transactional_ids=[*OPEN, "a-txn", "txn"])
    for name in ("a-txn", "txn"):
        asked = {"transactional_id": name, "transaction_timeout": 1 << 30}
        person.ask("init_producer_id", **asked, **_NO_PRODUCER)
    asked = {"transactional_id": None, "transaction_timeout": 60_000}
    person.ask("init_producer_id", **asked, **_NO_PRODUCER)


def _ask_of_the_cluster(person: Person) -> None:
    person.ask("describe_cluster", endpoint_type=1, include_cluster_authorized_operations=True)
    person.ask("unregister_broker", broker_id=99)
    named = [(2, OTHER), (32, KNOWN_GROUP), (32, OTHER_GROUP), (4, "1")]
    keys = ["retention.ms", "log.retention.ms", "consumer.session.timeout.ms"]
    resources = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
        for kind, name in named
    ]
    person.ask("describe_configs", resources=resources)


def _ask_of_tokens(person: Person) -> None:
    for owner in ("a-txn", "txn"):
        token = person.place.have_token(owner)
        person.call(token.token_id, f"{owner}'s token")
        person.call(token.hmac, f"{owner}'s hmac")
        # Not to be made, for another reason.
        whose = {"owner_principal_type": "User", "owner_principal_name": owner}
        asked = {"renewers": _NO_GROUP, "max_lifetime": -1}
        person.ask("create_delegation_token", **asked, **whose)
    person.ask("describe_delegation_token", owners=None)
