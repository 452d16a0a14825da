"""`@differential`: runs a test's body against both brokers and fails where they differ.

Kafka is asked itself by script/assure; at each commit, what it said once is compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, Literal, Protocol, TypeVar

import pytest

from differential.allowed import is_allowed
from differential.compare import Difference, Step, differences
from differential.own_answers import OwnAnswers
from differential.peer import Peer
from differential.transcripts import Transcripts, symbolic
from drumlin.wire.apis import is_flexible
from drumlin.wire.messages import schema_versions
from drumlin.wire.schema.types import Struct
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.messages import fields_there, item_of, payload_class
from rig.servers.apache_kafka import ApacheKafka

Script = Callable[[Peer], None]
Mode = Literal["replay", "live", "record"]

#: Where Kafka 4.3 serves less than the schemas know.
_KAFKA_MAXIMUM = {"init_producer_id": 5}


class _Startable(Protocol):
    def start(self) -> None: ...


Subject = TypeVar("Subject", bound=_Startable)


class Pair(Generic[Subject]):
    """Drumlin, and Apache Kafka: what it has once said, or itself. Brokers, or clusters of them.

    Attributes:
        drumlin: the subject; a second Kafka where the tests themselves are to be tested.
    """

    def __init__(
        self,
        kafka: Subject,
        drumlin: Subject,
        transcripts: Transcripts,
        mode: Mode,
        own_answers: OwnAnswers | None = None,
    ) -> None:
        self._kafka, self._is_started = kafka, False
        self.drumlin = drumlin
        self._transcripts, self._mode = transcripts, mode
        self._own_answers = own_answers

    @property
    def kafka(self) -> Subject:
        """The running one, started by the first test that needs it."""
        if not self._is_started:
            self._kafka.start()
            self._is_started = True
        return self._kafka

    def _changed(self, test: str, allowed: list[Difference]) -> str:
        """Of answers that may differ: those that do so otherwise than they did."""
        own = self._own_answers
        if own is None or (self._mode != "replay" and not own.knows(test)):
            return ""  # asked of Kafka itself, there are more tests, of which nothing is pinned
        return own.check(test, allowed)

    def compare(
        self,
        module: str,
        test: str,
        run: Callable[[str, Subject], tuple[list[Step], Any]],
        what: str,
    ) -> None:
        """Fails naming every field in which what both say differs, and is not allowed to.

        `run` asks one of the two, and returns what it said and what else must be the same.
        """
        ours = run("Drumlin", self.drumlin)
        if self._mode == "replay":
            steps, rest = self._transcripts.of(module, test)
            kafka = [Step(*each, "") for each in steps], rest
            said = [each._replace(answer=symbolic(each.answer)) for each in ours[0]]
            drumlin = said, symbolic(ours[1])
        else:
            kafka, drumlin = run("Kafka", self.kafka), ours
        if self._mode == "record":
            spoken = [(each.api, each.version, each.answer) for each in kafka[0]]
            self._transcripts.record(module, test, (spoken, kafka[1]))
        allowed = fail_where_different(kafka[0], drumlin[0], what)
        assert drumlin[1] == kafka[1], (
            f"{what}:\n  Kafka:   {kafka[1]!r}\n  Drumlin: {drumlin[1]!r}"
        )
        changed = self._changed(f"{module}.{test}", allowed)
        if changed:
            head = f"{what}: what Drumlin says where it may differ has changed:"
            pytest.fail(f"{head}\n{changed}", pytrace=False)


Broker = ApacheKafka | DrumlinServer
Brokers = Pair[Broker]


def all_versions(api: str) -> range:
    """The versions of an API that Apache Kafka 4.3 serves and the schemas know."""
    low, high = schema_versions(api)
    return range(low, _KAFKA_MAXIMUM.get(api, high) + 1)


def newest(api: str) -> int:
    """The newest of `all_versions`."""
    return all_versions(api)[-1]


def _schemas(api: str, version: int) -> Any:
    """What a version has in its requests and responses, at any depth."""
    return is_flexible(api, version), [
        _schema(payload_class(api, kind), version) for kind in ("request", "response")
    ]


def _schema(cls: Any, version: int) -> list[Any]:
    fields = fields_there(cls, version)
    items = [item_of(each.type) for each in fields]
    return [
        (each, _schema(item.of, version) if isinstance(item, Struct) else None)
        for each, item in zip(fields, items, strict=True)
    ]


def to_compare(api: str, versions: Iterable[int]) -> list[Any]:
    """The versions as parameters: at each commit the lowest, the newest and the schemas' changes.

    What lies between differs in its number only, and is marked `deep`.
    """
    chosen = list(versions)
    return [
        version
        if version in (chosen[0], chosen[-1])
        or _schemas(api, version) != _schemas(api, version - 1)
        else pytest.param(version, marks=pytest.mark.deep)
        for version in chosen
    ]


def differential(
    api: str, versions: Iterable[int] | None = None
) -> Callable[[Script], Callable[..., None]]:
    """Makes a script of requests a test of one API, for every version unless some are named."""

    def decorate(script: Script) -> Callable[..., None]:
        name = script.__name__

        def test(brokers: Brokers, version: int) -> None:
            def run(name: str, broker: Broker) -> tuple[list[Step], Any]:
                return _run(script, name, broker.port, api, version), None

            what = f"{api} v{version}, {name}"
            brokers.compare(script.__module__, f"{name}[{version}]", run, what)

        test.__name__ = test.__qualname__ = name
        test.__doc__ = script.__doc__
        test.__module__ = script.__module__
        compared = to_compare(api, versions or all_versions(api))
        marked: Any = pytest.mark.parametrize("version", compared)(test)
        return pytest.mark.kafka(pytest.mark.recorded(marked))  # type: ignore[no-any-return]

    return decorate


def fail_where_different(kafka: list[Step], drumlin: list[Step], what: str) -> list[Difference]:
    """Fails naming every field that differs and is not allowed to; returns those that may."""
    allowed, found = [], []
    for each in differences(kafka, drumlin):
        (allowed if is_allowed(each) else found).append(each)
    if found:
        head = f"{len(found)} differences in {what}:"
        pytest.fail("\n".join([head, *map(str, found)]), pytrace=False)
    return allowed


def _run(script: Script, name: str, port: int, api: str, version: int) -> list[Step]:
    peer = Peer(name, port, script.__name__, api, version)
    try:
        script(peer)
    except OSError as error:
        raise AssertionError(f"the script broke off on {name}: {error!r}") from error
    finally:
        peer.close()
    return peer.steps
