"""ACLs, users and delegation tokens, asked of brokers without an authorizer and without logins."""

from __future__ import annotations

from typing import Any

from differential.peer import Peer
from differential.scripts import differential

_FILTER = {
    "resource_type_filter": 2,
    "resource_name_filter": None,
    "pattern_type_filter": 3,
    "principal_filter": None,
    "host_filter": None,
    "operation": 3,
    "permission_type": 3,
}
_ACL = {
    "resource_type": 2,
    "resource_name": "topic",
    "resource_pattern_type": 3,
    "principal": "User:a",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
_DELETION = {"name": "u", "mechanism": 1}
_UPSERTION = {
    "name": "u",
    "mechanism": 1,
    "iterations": 4096,
    "salt": b"salt",
    "salted_password": b"password",
}


def _each(numbers: tuple[int, ...], whole: dict[str, Any]) -> list[dict[str, Any]]:
    """The whole with each of its numbers replaced by each of these; 0 means unknown."""
    return [
        whole | {field: number}
        for field, value in whole.items()
        if isinstance(value, int)
        for number in numbers
    ]


@differential("describe_acls")
def test_describe_acls(peer: Peer) -> None:
    peer.ask(**_FILTER)
    peer.ask(**_FILTER | {"resource_name_filter": "", "principal_filter": "a", "host_filter": ""})
    for odd in _each((0, 1, 99), _FILTER):
        peer.note(str(odd))
        peer.ask(**odd)


@differential("create_acls")
def test_create_acls(peer: Peer) -> None:
    peer.ask(creations=[])
    peer.ask(creations=[_ACL, _ACL, _ACL | {"resource_name": "", "principal": "", "host": ""}])
    for odd in _each((0, 1, 99), _ACL):
        peer.note(str(odd))
        peer.ask(creations=[_ACL, odd])


@differential("delete_acls")
def test_delete_acls(peer: Peer) -> None:
    peer.ask(filters=[])
    peer.ask(filters=[_FILTER, _FILTER, _FILTER | {"resource_name_filter": ""}])
    for odd in _each((0, 1, 99), _FILTER):
        peer.note(str(odd))
        peer.ask(filters=[_FILTER, odd])


@differential("create_delegation_token")
def test_create_delegation_token(peer: Peer) -> None:
    user = {"principal_type": "User", "principal_name": "a"}
    peer.ask(renewers=[], max_lifetime=-1)
    peer.ask(renewers=[user, user | {"principal_type": "Group"}], max_lifetime=1000)
    if peer.version >= 3:
        for owner in (("User", "bob"), ("Group", "bob"), ("", "bob"), ("User", ""), ("", "")):
            peer.note(str(owner))
            owner_type, owner_name = owner
            peer.ask(
                owner_principal_type=owner_type, owner_principal_name=owner_name, max_lifetime=0
            )


@differential("renew_delegation_token")
def test_renew_delegation_token(peer: Peer) -> None:
    peer.ask(hmac=b"", renew_period=-1)
    peer.ask(hmac=b"token", renew_period=1000)


@differential("expire_delegation_token")
def test_expire_delegation_token(peer: Peer) -> None:
    peer.ask(hmac=b"", expiry_time_period=-1)
    peer.ask(hmac=b"token", expiry_time_period=1000)


@differential("describe_delegation_token")
def test_describe_delegation_token(peer: Peer) -> None:
    user = {"principal_type": "User", "principal_name": "a"}
    for owners in (None, [], [user], [user, user]):
        peer.ask(owners=owners)


@differential("describe_user_scram_credentials")
def test_describe_credentials(peer: Peer) -> None:
    for users in (None, [], ["a"], ["a", "a", "b", ""], ["", ""]):
        peer.note(str(users))
        peer.ask(users=users and [{"name": each} for each in users])


@differential("alter_user_scram_credentials")
def test_delete_credentials(peer: Peer) -> None:
    peer.ask(deletions=[], upsertions=[])
    for odd in ({}, {"mechanism": 0}, {"mechanism": 2}, {"mechanism": 3}, {"name": ""}):
        peer.ask(deletions=[_DELETION | odd])
    peer.ask(deletions=[_DELETION, _DELETION, _DELETION | {"name": "v"}])


@differential("alter_user_scram_credentials")
def test_credentials_that_cannot_be(peer: Peer) -> None:
    for odd in (
        *({"iterations": each} for each in (-1, 0, 4095, 16385)),
        *({"mechanism": each} for each in (0, 3, -1)),
        {"name": ""},
        {"name": "", "mechanism": 0},
        {"mechanism": 2, "iterations": 4095},
    ):
        peer.note(str(odd))
        peer.ask(upsertions=[_UPSERTION | odd])
    few = _UPSERTION | {"iterations": 4}
    peer.ask(deletions=[_DELETION], upsertions=[_UPSERTION | few])
    peer.ask(upsertions=[few, _UPSERTION, few | {"name": "v"}])


@differential("alter_user_scram_credentials")
def test_credentials(peer: Peer) -> None:
    """The last of these scripts: afterwards there is a user in Kafka."""
    peer.note("a credential that is set")
    peer.ask(upsertions=[_UPSERTION | {"name": peer.unique("user")}])
