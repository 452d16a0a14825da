"""`@each_right`: runs a test's body as every user that it concerns, against both brokers.

A script is a function that is given a `Person` and asks as that one. What Apache Kafka answered is
recorded once for all users that got the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

import pytest

from differential.compare import Step
from differential.normalise import Normaliser
from differential.now import NOW
from differential.rights.places import Place
from differential.rights.users import concerned
from differential.scripts import Pair, newest, to_compare
from differential.transcripts import Transcripts
from drumlin.broker.rights.acls import Kind
from rig.data.messages import render
from rig.data.raw import Closed, NoAnswer, RawClient

Script = Callable[["Person"], None]
Places = Pair[Place]
_KINDS: Final = {
    "T": Kind.TOPIC,
    "G": Kind.GROUP,
    "C": Kind.CLUSTER,
    "X": Kind.TRANSACTIONAL_ID,
    "D": Kind.DELEGATION_TOKEN,
    "U": Kind.USER,
}
_ANSWER_TIMEOUT_S: Final = 6.0
_HOUR_MS: Final = 3_600_000


class Person:
    """One user on one broker, and what the others of the same script have been told.

    Attributes:
        name: of the user.
        place: the broker, with its administrator's connection for what has to be there before.
        is_first: of those who ask.
    """

    def __init__(
        self,
        name: str,
        place: Place,
        api: str,
        version: int,
        told: list[Step],
        names: Names,
        *,
        is_first: bool = False,
    ) -> None:
        self.name, self.place = name, place
        self.is_first = is_first
        self.version = version
        self._api, self._told, self._names = api, told, names
        self._about = ""

    @property
    def admin(self) -> RawClient:
        """The administrator, whose answers are not compared."""
        return self.place.admin

    def own(self, name: str) -> str:
        """A name that this user has for himself, and may have rights on."""
        own = f"a-{name}-{self.name.lower()}"
        self._names.keep(own)
        return own

    def note(self, what: str) -> None:
        """Says in a report what the answers that follow are about."""
        self._about = what

    def call(self, value: Any, name: str) -> Any:
        """Give a value that the broker has chosen a name for comparing."""
        self._names.know(value, name)
        return value

    def ask(
        self,
        api: str | None = None,
        version: int | None = None,
        *,
        is_answered: bool = True,
        **fields: Any,
    ) -> Any:
        """Send a request, by default one to the API and version under test; the answer.

        `is_answered`: by Apache Kafka, which forgets some requests that it fails over.
        """
        api = api or self._api
        if version is None:
            version = self.version if api == self._api else newest(api)
        client = self.place.user(self.name)
        client.socket.settimeout(_ANSWER_TIMEOUT_S)
        try:
            message = client.ask(api, version, **fields)
        except Closed:
            self.place.reconnect(self.name)
            self._record(api, version, "(closed)")
            return None
        except NoAnswer:
            self.place.reconnect(self.name)
            if not is_answered:
                self._record(api, version, "(no answer)")
                return None
            told = f"{self.name}, {api} v{version} {self._about}"
            raise AssertionError(f"no answer from {self.place.server}: {told}") from None
        self._record(api, version, render(message))
        return message

    def ask_about_groups(self, groups: Collection[str], **fields: Any) -> None:
        """Ask, and leave out what is said of other groups."""
        self._ask_about("groups", "group_id", groups, fields)

    def ask_about_topics(self, names: Collection[str], **fields: Any) -> None:
        """Ask, and leave out what is said of other topics."""
        self._ask_about("topics", "name", names, fields)

    def _ask_about(
        self, array: str, name: str, names: Collection[str], fields: dict[str, Any]
    ) -> None:
        message = render(self.place.user(self.name).ask(self._api, self.version, **fields))
        message[array] = [each for each in message[array] if each[name] in names]
        self._record(self._api, self.version, message)

    def _record(self, api: str, version: int, answer: Any) -> None:
        about = f"as {self.name}{self._about and ': '}{self._about}"
        self._told.append(Step(api, version, self._names(answer), about))


class Names(Normaliser):
    """As for other scripts; and what is chosen of tokens."""

    def _scalar(self, value: Any, field: str) -> Any:
        if field in ("token_id", "hmac") and value:
            return self._name(field, value)
        if field in ("issue_timestamp", "expiry_timestamp", "max_timestamp") and value > 0:
            return f"<in {round((value - NOW) / _HOUR_MS)} h>"
        return super()._scalar(value, field)


def each_right(
    api: str, kinds: str, versions: Iterable[int] | None = None
) -> Callable[[Script], Callable[..., None]]:
    """Makes a script a test of one API in its newest version, unless others are named.

    `kinds` has the first letters of the kinds of resources that rights are needed on.
    """
    users = concerned(_KINDS[each] for each in kinds)

    def decorate(script: Script) -> Callable[..., None]:
        name = script.__name__

        def test(places: Places, version: int) -> None:
            def run(_: str, place: Place) -> tuple[list[Step], Any]:
                told: list[Step] = []
                names = Names(place.server.login_port)
                for topic, topic_id in place.topic_ids.items():
                    names.know(topic_id, f"id of {topic}")
                for user in users:
                    is_first = user == users[0]
                    script(Person(user, place, api, version, told, names, is_first=is_first))
                return told, None

            what = f"{api} v{version}, {name}"
            places.compare(script.__module__, f"{name}[{version}]", run, what)

        test.__name__ = test.__qualname__ = name
        test.__doc__, test.__module__ = script.__doc__, script.__module__
        compared = to_compare(api, versions or [newest(api)])
        marked: Any = pytest.mark.parametrize("version", compared)(test)
        return pytest.mark.kafka(pytest.mark.recorded(marked))  # type: ignore[no-any-return]

    return decorate


class FoldedTranscripts(Transcripts):
    """Transcripts in which each answer is written once, and then its number."""

    def of(self, module: str, test: str) -> Any:
        (answers, numbers), rest = super().of(module, test)
        return [answers[each] for each in numbers], rest

    def record(self, module: str, test: str, said: Any) -> None:
        steps, rest = said
        places: dict[str, int] = {}
        numbers = [places.setdefault(repr(each), len(places)) for each in steps]
        answers = [steps[numbers.index(each)] for each in range(len(places))]
        super().record(module, test, ((answers, numbers), rest))
