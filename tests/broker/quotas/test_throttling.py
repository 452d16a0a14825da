"""Clients that use too much are answered, told how long to wait, and then not read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from rig.brokers.drumlin_server import DrumlinServer
from rig.data.batches import batch
from rig.data.messages import render
from rig.data.raw import RawClient

Entity = dict[str, str | None]
_RECORDS = batch(b"x" * 20_000)
#: Of a whole window, that is of 10 s, at first.
_CREDIT_S = 10
_SET, _CREATED, _EXCEEDED = 0, 0, 89


class Quotas:
    """Sets quotas of a server, and takes them back."""

    def __init__(self, client: RawClient) -> None:
        self._client = client

    def alter(self, entity: Entity, *, remove: bool = False, **values: float) -> None:
        names = [{"entity_type": each, "entity_name": entity[each]} for each in entity]
        ops = [{"key": key, "value": value, "remove": remove} for key, value in values.items()]
        entry = {"entity": names, "ops": ops}
        told = self._client.ask("alter_client_quotas", 1, entries=[entry], validate_only=False)
        assert [each.error_code.value for each in told.entries] == [_SET]

    @contextmanager
    def of(self, entity: Entity, **values: float) -> Iterator[None]:
        self.alter(entity, **values)
        try:
            yield
        finally:
            self.alter(entity, remove=True, **values)

    def told(self, entity: Entity, *, strict: bool = True) -> Any:
        components = [
            {"entity_type": each, "match_type": int(name is None), "match": name}
            for each, name in entity.items()
        ]
        told = self._client.ask("describe_client_quotas", 1, components=components, strict=strict)
        return render(told)["entries"]


@pytest.fixture
def quotas(server: DrumlinServer) -> Iterator[Quotas]:
    with RawClient(server.port, "admin of quotas") as client:
        yield Quotas(client)


@pytest.fixture
def client(server: DrumlinServer, topic_name: Callable[[str], str]) -> Iterator[RawClient]:
    with RawClient(server.port, topic_name("client")) as client:
        yield client


def _id(client: RawClient) -> Entity:
    return {"client-id": client.client_id}


def _produced(client: RawClient, topic: str, version: int = 9, acks: int = 1) -> dict[str, Any]:
    part = {"index": 0, "records": _RECORDS}
    return {
        "acks": acks,
        "timeout": 10_000,
        "topic_data": [{"name": topic, "partition_data": [part]}],
    }


def _wait_ms(answer: Any) -> float:
    return float(answer.throttle_time.total_seconds() * 1000)


def _is_held_back(client: RawClient, throttle_ms: float, since_s: float) -> None:
    """The next request is answered only after the throttle."""
    client.ask("api_versions", 0)
    assert (time.monotonic() - since_s) * 1000 >= throttle_ms - 1


@pytest.mark.parametrize("version", range(3, 13))
def test_producers_wait(
    quotas: Quotas, client: RawClient, create: Callable[..., str], version: int
) -> None:
    topic = create()
    with quotas.of(_id(client), producer_byte_rate=len(_RECORDS) // _CREDIT_S - 20):
        began_s = time.monotonic()
        answer = client.ask("produce", version, **_produced(client, topic))
        ((part,),) = (list(each.partition_responses) for each in answer.responses)
        assert part.error_code.value == 0
        assert 100 <= _wait_ms(answer) <= 250
        _is_held_back(client, _wait_ms(answer), began_s)


def test_producers_that_want_no_answer_wait_as_well(
    quotas: Quotas, client: RawClient, create: Callable[..., str]
) -> None:
    topic = create()
    with quotas.of(_id(client), producer_byte_rate=len(_RECORDS) // _CREDIT_S - 20):
        began_s = time.monotonic()
        client.send("produce", 9, **_produced(client, topic, acks=0))
        _is_held_back(client, 100, began_s)


def test_others_do_not_wait(
    server: DrumlinServer, quotas: Quotas, client: RawClient, create: Callable[..., str]
) -> None:
    topic = create()
    with quotas.of(_id(client), producer_byte_rate=1), RawClient(server.port, "b") as other:
        throttled = client.ask("produce", 9, **_produced(client, topic))
        assert _wait_ms(throttled) > 1_000_000
        assert _wait_ms(other.ask("produce", 9, **_produced(other, topic))) == 0


def test_all_clients_of_a_user_wait_together(
    server: DrumlinServer, quotas: Quotas, client: RawClient, create: Callable[..., str]
) -> None:
    topic = create()
    with (
        quotas.of({"user": "ANONYMOUS"}, producer_byte_rate=1e5),
        quotas.of({"user": None}, producer_byte_rate=1),
        RawClient(server.port, "another") as another,
    ):
        while not _wait_ms(client.ask("produce", 9, **_produced(client, topic))):
            pass
        assert _wait_ms(another.ask("produce", 9, **_produced(another, topic)))


def _fetched(topic: str, offset: int, version: int = 12, **session: int) -> dict[str, Any]:
    part = {
        "partition": 0,
        "fetch_offset": offset,
        "partition_max_bytes": 1,
        "current_leader_epoch": -1,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
    }
    limits = {"replica_id": -1, "max_wait": 100, "min_bytes": 1, "max_bytes": 1 << 20}
    return limits | {"topics": [{"topic": topic, "partitions": [part]}]} | session


def _records_of(answer: Any) -> Sequence[int]:
    return [len(part.records) for each in answer.responses for part in each.partitions]


@pytest.mark.parametrize("is_in_session", [False, True])
def test_consumers_get_nothing_and_then_the_rest(
    quotas: Quotas, client: RawClient, create: Callable[..., str], is_in_session: bool
) -> None:
    topic = create()
    for _ in range(2):
        client.ask("produce", 9, **_produced(client, topic))
    session = {"session_id": 0, "session_epoch": 0 if is_in_session else -1}
    # Of the two batches the window takes one at once, and the second when 0.3 s are over.
    with quotas.of(_id(client), consumer_byte_rate=2 * len(_RECORDS) // _CREDIT_S - 110):
        first = client.ask("fetch", 12, **_fetched(topic, 0, **session))
        assert _records_of(first)[0] >= len(_RECORDS) and first.throttle_time.total_seconds() == 0
        later = {"session_id": first.session_id, "session_epoch": 1 if is_in_session else -1}
        began_s = time.monotonic()
        empty = client.ask("fetch", 12, **_fetched(topic, 1, **later))
        assert (empty.error_code.value, empty.session_id) == (0, first.session_id)
        assert not empty.responses and 0 < _wait_ms(empty) < 1500
        _is_held_back(client, _wait_ms(empty), began_s)
        if is_in_session:
            later["session_epoch"] = 2
        request = _fetched(topic, 1, **later)
        if is_in_session:
            request["topics"] = []  # as nothing has changed
        answer = empty
        while not answer.responses:
            answer = client.ask("fetch", 12, **request)
            if is_in_session:
                request["session_epoch"] += 1
        assert _records_of(answer) == [len(_RECORDS)]


def test_news_without_records_is_told_later(
    server: DrumlinServer, quotas: Quotas, client: RawClient, create: Callable[..., str]
) -> None:
    full, cut = create("full"), create("cut")
    for topic in (full, full, cut):
        client.ask("produce", 9, **_produced(client, topic))
    request = _fetched(full, 0, session_id=0, session_epoch=0)
    request["topics"] += _fetched(cut, 1)["topics"]
    with quotas.of(_id(client), consumer_byte_rate=2 * len(_RECORDS) // _CREDIT_S - 110):
        session_id = client.ask("fetch", 12, **request).session_id
        with RawClient(server.port) as other:
            part = {"partition_index": 0, "offset": 1}
            topics = [{"name": cut, "partitions": [part]}]
            other.ask("delete_records", 2, topics=topics, timeout=10_000)
        request = _fetched(full, 1, session_id=session_id, session_epoch=1)
        answers = [client.ask("fetch", 12, **request)]
        assert not answers[0].responses
        while not answers[-1].responses:
            epoch = 1 + len(answers)
            request = _fetched(full, 1, session_id=session_id, session_epoch=epoch) | {"topics": []}
            answers.append(client.ask("fetch", 12, **request))
    told = {each.topic: each.partitions[0].log_start_offset for each in answers[-1].responses}
    assert told == {full: 0, cut: 1}


def test_a_session_is_begun_when_something_is_told(
    quotas: Quotas, client: RawClient, create: Callable[..., str]
) -> None:
    topic = create()
    client.ask("produce", 9, **_produced(client, topic))
    session = {"session_id": 0, "session_epoch": 0}
    with quotas.of(_id(client), consumer_byte_rate=len(_RECORDS) // _CREDIT_S + 100):
        assert client.ask("fetch", 12, **_fetched(topic, 0)).responses
        empty = client.ask("fetch", 12, **_fetched(topic, 0, **session))
        assert (empty.error_code.value, empty.session_id, empty.responses) == (0, 0, ())
        assert _wait_ms(empty) > 0


def test_the_time_of_requests_is_limited(quotas: Quotas, client: RawClient) -> None:
    with quotas.of(_id(client), request_percentage=1e-9):
        began_s = time.monotonic()
        answer = client.ask("api_versions", 3)
        assert _wait_ms(answer) == 1000  # a whole sample, and no more
        _is_held_back(client, 1000, began_s)


def _topic(name: str, partitions: int = 1) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": 1}


def test_partitions_are_created_as_fast_as_allowed(
    server: DrumlinServer, quotas: Quotas, topic_name: Callable[[str], str]
) -> None:
    names, client_id = [topic_name(each) for each in "abcd"], topic_name("client")

    def asked(api: str, version: int, **fields: Any) -> tuple[list[int], float]:
        """The error codes, and the time to wait in ms."""
        with RawClient(server.port, client_id) as client:  # not the one that is not read now
            told = client.ask(api, version, **fields, timeout=10_000)
        results = {"create_topics": "topics", "create_partitions": "results"}.get(api, "responses")
        return [each.error_code.value for each in getattr(told, results)], _wait_ms(told)

    with quotas.of({"client-id": client_id}, controller_mutation_rate=0.1):
        # 1.1 at once; the one that goes beyond is still created, and the next one is not.
        topics = [_topic(names[0], 1), _topic(names[1], 6), _topic(names[2])]
        codes, wait_ms = asked("create_topics", 7, topics=topics)
        assert (codes, wait_ms > 0) == ([_CREATED, _CREATED, _EXCEEDED], True)
        codes, wait_ms = asked("create_topics", 5, topics=[_topic(names[3])])
        assert (codes, wait_ms > 1000) == ([_CREATED], True)
        grown = [{"name": names[3], "count": 6}]
        codes, wait_ms = asked("create_partitions", 3, topics=grown)
        assert (codes, wait_ms > 1000) == ([_EXCEEDED], True)
        codes, wait_ms = asked("delete_topics", 5, topic_names=names[:1])
        assert (codes, wait_ms > 1000) == ([_EXCEEDED], True)
        codes, wait_ms = asked("delete_topics", 4, topic_names=names[:2])
        assert (codes, wait_ms > 10_000) == ([0, 0], True)


def test_what_is_set_is_told_and_kept(quotas: Quotas, topic_name: Callable[[str], str]) -> None:
    user, client_id = topic_name("user"), topic_name("app/*")
    both: Entity = {"user": user, "client-id": client_id}
    quotas.alter(both, producer_byte_rate=1000, request_percentage=12.5)
    quotas.alter({"user": user}, consumer_byte_rate=7)
    quotas.alter(both, remove=True, producer_byte_rate=0)
    quotas.alter(both, request_percentage=13.5)
    assert [each["values"] for each in quotas.told(both)] == [
        [{"key": "request_percentage", "value": "13.5"}]
    ]
    assert len(quotas.told({"user": user}, strict=False)) == 2
    assert len(quotas.told({"user": user})) == 1
    quotas.alter(both, remove=True, request_percentage=0)
    quotas.alter({"user": user}, remove=True, consumer_byte_rate=0)
    assert quotas.told({"user": user}, strict=False) == []
