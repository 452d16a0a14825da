"""Whose limit is whose: Kafka's order, who shares one, and how much of strangers is remembered."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from drumlin.broker.quotas import usages
from drumlin.broker.quotas.entities import Entity, entity_of, quotas_of, resource_of
from drumlin.broker.quotas.limits import ClientLimits, Other
from drumlin.broker.quotas.rate import Window
from drumlin.broker.quotas.rate_quota import RateQuota
from drumlin.broker.quotas.requests import Filter
from drumlin.broker.quotas.untold import Used
from drumlin.broker.quotas.usages import Usages
from drumlin.metadata.image import Resource, ResourceType

#: As Kafka's documentation lists them: the first that is set counts.
_ORDER: list[Entity] = [
    {"user": "alice", "client-id": "app"},
    {"user": "alice", "client-id": None},
    {"user": "alice"},
    {"user": None, "client-id": "app"},
    {"user": None, "client-id": None},
    {"user": None},
    {"client-id": "app"},
    {"client-id": None},
]
_WINDOW = Window(11, 1000)


def test_the_first_in_the_order_counts() -> None:
    limits = ClientLimits()
    assert limits.find("alice", "app") is None
    for rank in reversed(range(len(_ORDER))):
        limits.put(_ORDER[rank], rank)
        found = limits.find("alice", "app")
        assert found is not None and found.bound == rank
    for rank, entity in enumerate(_ORDER):
        found = limits.find("alice", "app")
        assert found is not None and found.bound == rank
        limits.put(entity, None)
    assert not limits


@pytest.mark.parametrize(
    ("entity", "shared"),
    [
        ({"user": "alice"}, [("alice", "app"), ("alice", "other"), ("alice", "")]),
        ({"client-id": "app"}, [("alice", "app"), ("bob", "app")]),
        ({"user": None}, [("alice", "app"), ("alice", "other"), ("alice", "")]),
        ({"user": None, "client-id": None}, [("alice", "app")]),
        ({"client-id": None}, [("alice", ""), ("bob", "")]),
    ],
)
def test_who_shares_a_limit(entity: Entity, shared: list[tuple[str, str]]) -> None:
    quota = RateQuota(_WINDOW)
    quota.limits.put(entity, 100)
    everybody = list(itertools.product(["alice", "bob"], ["app", "other", ""]))
    quota.record(*shared[0], 2000, 0)
    waiting = [client for client in everybody if quota.overdue_ms(*client, 0)]
    assert waiting == shared


def test_random_limits_are_found_as_a_plain_search_finds_them() -> None:
    chance = random.Random(4)
    names: list[Any] = ["a", "b", None]
    for _ in range(300):
        limits, kept = ClientLimits(), dict[tuple[Any, ...], float]()
        for _ in range(chance.randrange(8)):
            entity = {
                each: chance.choice(names)
                for each in ("user", "client-id")
                if chance.random() < 0.6
            }
            bound = chance.choice([None, 1.0, 2.0])
            key = tuple(entity.get(each, Other.NONE) for each in ("user", "client-id"))
            limits.put(entity, bound)
            kept.pop(key, None) if bound is None else kept.update({key: bound})
        for user, client in itertools.product(["a", "b", "c"], repeat=2):
            found = limits.find(user, client)
            fitting = [
                (
                    (own_user is Other.NONE, own_user is None),
                    (own_client is Other.NONE, own_client is None),
                    bound,
                )
                for (own_user, own_client), bound in kept.items()
                if own_user in (user, None, Other.NONE) and own_client in (client, None, Other.NONE)
                and (own_user, own_client) != (Other.NONE, Other.NONE)
            ]  # fmt: skip
            assert (found and found.bound) == (min(fitting)[2] if fitting else None)


def test_a_fetch_larger_than_its_window_is_not_held_back_for_ever() -> None:
    quota = RateQuota(_WINDOW)
    quota.limits.put({"client-id": None}, 10)
    assert quota.at_once_max("", "a") == 100
    assert quota.admit("", "a", 5000, 0) == 0
    assert quota.admit("", "a", 1, 1000) > 0
    assert quota.admit("", "a", 5000, 12_000) == 0


def test_what_is_not_admitted_is_not_counted() -> None:
    quota = RateQuota(_WINDOW)
    quota.limits.put({"user": None}, 10)
    assert quota.admit("u", "a", 90, 0) == 0
    for _ in range(5):
        assert quota.admit("u", "a", 20, 1) == 999
    assert quota.admit("u", "a", 10, 1) == 0


class _Notes(list[str]):
    """A usage that shows whose it is."""

    def hear(self, window: Window, used: Used, now_ms: int) -> None: ...


def test_usages_of_strangers_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usages, "_KEPT_MAX", 3)
    kept = Usages(_Notes, _WINDOW)
    for name in "abc":
        kept.of((Other.NONE, name), 0).append(name)
    assert kept.of((Other.NONE, "a"), 0) == ["a"]
    kept.of((Other.NONE, "d"), 0)
    assert len(kept) == 3
    assert kept.of((Other.NONE, "a"), 0) == ["a"]
    assert kept.of((Other.NONE, "b"), 0) == []
    for name in ("x", "y", "z"):
        kept.of((Other.NONE, name), 3_600_000)
    assert kept.of((Other.NONE, "a"), 3_600_000) == []


def test_a_long_name_is_not_another_one() -> None:
    kept = Usages(_Notes, _WINDOW)
    for end in "ab":
        kept.of(("", "n" * 30_000 + end), 0).append(end)
    assert kept.of(("", "n" * 30_000 + "a"), 0) == ["a"]


@pytest.mark.parametrize("entity", [*_ORDER, {"ip": "::1"}, {"ip": None}, {"user": "<default>"}])
def test_an_entity_is_found_under_its_name(entity: Entity) -> None:
    assert entity_of(resource_of(entity)) == entity


def test_the_names_are_those_of_kafka() -> None:
    entity = {"client-id": "a b/*~é", "user": None}
    assert resource_of(entity).name == "users/<default>/clients/a%20b%2F%2A%7E%C3%A9"


@pytest.mark.parametrize(
    ("names", "any_of", "strict", "found"),
    [
        ({}, [], False, range(8)),
        ({}, [], True, []),
        ({"user": "alice"}, [], False, [0, 1, 2]),
        ({"user": "alice"}, [], True, [2]),
        ({"user": "alice"}, ["client-id"], True, [0, 1]),
        ({"user": None}, [], False, [3, 4, 5]),
        ({}, ["client-id"], False, [0, 1, 3, 4, 6, 7]),
        ({}, ["client-id"], True, [6, 7]),
        ({"client-id": "app", "user": "bob"}, [], False, []),
    ],
)
def test_filters(
    names: dict[str, str | None], any_of: list[str], strict: bool, found: list[int]
) -> None:
    wanted = Filter(names, frozenset(any_of), strict)
    assert [rank for rank, each in enumerate(_ORDER) if wanted.matches(each)] == list(found)


def test_what_others_have_damaged_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    resource = resource_of({"user": "alice"})
    found = quotas_of(resource, {"producer_byte_rate": "5", "consumer_byte_rate": "much"})
    assert found == ({"user": "alice"}, {"producer_byte_rate": 5.0})
    assert "consumer_byte_rate='much' of users/alice is no number" in caplog.text
    for name in ("users", "users/a/b/c", "groups/g"):
        assert quotas_of(Resource(ResourceType.QUOTA, name), {}) is None
