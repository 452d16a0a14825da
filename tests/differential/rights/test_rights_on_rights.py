"""ACLs, users and delegation tokens."""

from __future__ import annotations

from typing import Any

from differential.rights.asking import Person, each_right
from differential.rights.users import NOBODY, ROOT

_ACL = {
    "resource_type": 2,
    "resource_name": "a-granted",
    "resource_pattern_type": 3,
    "principal": "User:grantee",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
_ANY = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
_OF_GRANTEE = _ANY | {"principal_filter": "User:grantee"}


@each_right("describe_acls", "CT")
def test_describe_acls(person: Person) -> None:
    person.ask(**_ANY | {"principal_filter": "User:TOPIC-READ-only"})
    person.note("an unknown type")
    person.ask(**_ANY | {"resource_type_filter": 99})


@each_right("create_acls", "CT")
def test_create_acls(person: Person) -> None:
    no_name, no_cluster = {"resource_name": ""}, {"resource_type": 4}
    person.ask(creations=[_ACL, _ACL | no_name, _ACL | no_cluster, _ACL | {"host": ""}])
    person.admin.ask("delete_acls", 3, filters=[_OF_GRANTEE])


@each_right("delete_acls", "CT")
def test_delete_acls(person: Person) -> None:
    person.place.grant(_ACL)
    person.ask(filters=[_OF_GRANTEE, _ANY | {"principal_filter": "User:no one"}])
    person.note("an unknown type")
    person.ask(filters=[_OF_GRANTEE | {"resource_type_filter": 99}])


@each_right("describe_user_scram_credentials", "CU")
def test_describe_credentials(person: Person) -> None:
    for users in (["no one"], ["no one", "no one"], []):
        person.note(f"{users}")
        person.ask(users=users and [{"name": each} for each in users])
    if person.name in (NOBODY, ROOT):
        person.note("null for all users")
        person.ask(users=None, is_answered=False)


@each_right("alter_user_scram_credentials", "CU")
def test_alter_credentials(person: Person) -> None:
    weak = {"name": "weak", "mechanism": 1, "iterations": 1, "salt": b"salt"}
    weak["salted_password"] = b"p" * 32
    person.ask(deletions=[{"name": "no one", "mechanism": 1}], upsertions=[weak])
    person.note("an unknown mechanism")
    person.ask(deletions=[{"name": "no one", "mechanism": 9}], upsertions=[])
    person.note("one that is not there, and another")
    deletion = {"name": "one", "mechanism": 1}
    person.ask(deletions=[deletion], upsertions=[_credential("one", 2)])
    person.note("one twice")
    person.ask(deletions=[], upsertions=[_credential("one", 2), _credential("one", 2)])


@each_right("alter_user_scram_credentials", "CU")
def test_two_credentials_of_a_user(person: Person) -> None:
    name = person.own("credentials")
    person.note("two mechanisms of one user")
    person.ask(deletions=[], upsertions=[_credential(name, 1), _credential(name, 2)])
    person.ask("describe_user_scram_credentials", users=[{"name": name}])
    removed = [{"name": name, "mechanism": mechanism} for mechanism in (1, 2)]
    person.admin.ask("alter_user_scram_credentials", 0, deletions=removed, upsertions=[])


def _credential(name: str, mechanism: int) -> dict[str, Any]:
    salted = b"p" * (32 if mechanism == 1 else 64)
    told = {"iterations": 4096, "salt": b"salt", "salted_password": salted}
    return {"name": name, "mechanism": mechanism, **told}


def _principal(name: str) -> dict[str, Any]:
    return {"principal_type": "User", "principal_name": name}


def _have_tokens(person: Person) -> dict[str, bytes]:
    """The hmacs of tokens that the super user has asked for, by their owners."""
    found = {}
    for owner in ("a-owner", "owner"):
        token = person.place.have_token(owner)
        found[owner] = person.call(token.hmac, f"{owner}'s hmac")
        person.call(token.token_id, f"{owner}'s token")
    return found


@each_right("create_delegation_token", "UD")
def test_tokens(person: Person) -> None:
    """A token from being made to its end."""
    _have_tokens(person)
    answer = person.ask(renewers=[_principal(ROOT)], max_lifetime=86_400_000)
    person.place.await_token(answer.token_id)
    person.ask("renew_delegation_token", hmac=answer.hmac, renew_period=86_400_000)
    person.ask("describe_delegation_token", owners=[_principal(person.name)])
    person.ask("expire_delegation_token", hmac=answer.hmac, expiry_time_period=-1)
    for owner in ("a-owner", "owner"):
        person.note(f"for {owner}")
        whose = {"owner_principal_type": "User", "owner_principal_name": owner}
        renewers = [_principal(ROOT)]
        answer = person.ask(renewers=renewers, max_lifetime=86_400_000, **whose)
        if answer and not answer.error_code:
            person.place.await_token(answer.token_id)
            person.ask("renew_delegation_token", hmac=answer.hmac, renew_period=86_400_000)
            person.place.end_token(answer.hmac)
    person.note("not to be made")
    person.ask(renewers=[{"principal_type": "Group", "principal_name": "g"}], max_lifetime=-1)


@each_right("create_delegation_token", "UD")
def test_owners_that_are_no_users(person: Person) -> None:
    for kind in ("Group", "", *([None] if person.name in (NOBODY, ROOT) else [])):
        for owner in ("a-owner", "owner"):
            person.note(f"an owner of the type {kind!r}")
            whose = {"owner_principal_type": kind, "owner_principal_name": owner}
            answer = person.ask(renewers=[_principal(ROOT)], max_lifetime=86_400_000, **whose)
            if answer and not answer.error_code:
                person.place.await_token(answer.token_id)
                person.place.end_token(answer.hmac)


@each_right("describe_delegation_token", "UD")
def test_tokens_of_others(person: Person) -> None:
    for owner, hmac in _have_tokens(person).items():
        person.note(f"{owner}'s")
        person.ask("renew_delegation_token", hmac=hmac, renew_period=86_400_000)
        person.ask("expire_delegation_token", hmac=hmac, expiry_time_period=86_400_000)
    for owners in (None, [], [_principal("a-owner")], [_principal("owner"), _principal("a-owner")]):
        person.note(f"{owners}")
        person.ask(owners=owners)
    person.note("no token")
    person.ask("renew_delegation_token", hmac=b"none", renew_period=86_400_000)
    person.ask("expire_delegation_token", hmac=b"none", expiry_time_period=-1)
