"""The pytest plugin: fixtures `drumlin_broker`, `drumlin_topic` and `drumlin_client`.

pytest loads the plugin in every run, even if it is not used. A broker starts with the first test
that uses it. Tests with different configurations get different brokers, each of which runs until
the session ends; with pytest-xdist every worker is a session.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import pytest

from drumlin.testing.defaults import Config, as_properties
from drumlin.testing.local_broker import Broker, BrokerFailed, broker

if TYPE_CHECKING:
    from drumlin.client.client import Client

_INI: Final = "drumlin_config"
_MARKERS: Final = (
    "drumlin(config=None, secure=False): the broker of `drumlin_broker`; secure: TLS and a login",
    "drumlin_topic(partitions=1, config=None): the settings of the topic of `drumlin_topic`",
)
#: If pytest supports this, tests keep their names when a marker chooses their broker.
_NAME_PART: Final = getattr(pytest, "HIDDEN_PARAM", "drumlin")


class _Brokers:
    """The brokers of a session, by their configuration beyond the defaults."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self._running: dict[tuple[bool, tuple[tuple[str, str], ...]], Broker] = {}

    def get(self, properties: Mapping[str, str], *, is_secure: bool) -> Broker:
        key = is_secure, tuple(sorted(properties.items()))
        if key not in self._running:
            started = broker(properties, secure=is_secure)
            self._running[key] = self._stack.enter_context(started)
        return self._running[key]

    def start_again(self) -> None:
        """Restart brokers that a test has stopped."""
        for each in self._running.values():
            if each.is_stopped:
                each.start()


_BROKERS: Final = pytest.StashKey[_Brokers]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(_INI, "KEY=VALUE lines: the configuration of drumlin's brokers", "linelist")


def pytest_configure(config: pytest.Config) -> None:
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the broker by the marker of a test.

    A session-scoped fixture cannot see the marker of a test. A parameter of the fixture achieves
    the same: fixtures that depend on the broker are set up again when it changes.
    """
    if "drumlin_broker" not in metafunc.fixturenames:
        return
    properties: dict[str, str] = {}
    is_secure = False
    for mark in reversed(list(metafunc.definition.iter_markers("drumlin"))):
        config, secure = _arguments(_broker_marker, mark)
        properties |= as_properties(config)
        is_secure = is_secure if secure is None else secure
    if properties or is_secure:
        wanted = properties, is_secure
        metafunc.parametrize(
            "drumlin_broker", [wanted], indirect=True, scope="session", ids=[_NAME_PART]
        )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    brokers = item.session.stash.get(_BROKERS, None)
    if brokers is not None:
        brokers.start_again()


@pytest.fixture(scope="session")
def _drumlin_brokers(request: pytest.FixtureRequest) -> Iterator[_Brokers]:
    with contextlib.ExitStack() as stack:
        brokers = _Brokers(stack)
        request.session.stash[_BROKERS] = brokers
        yield brokers
        del request.session.stash[_BROKERS]


@pytest.fixture(scope="session")
def drumlin_broker(request: pytest.FixtureRequest, _drumlin_brokers: _Brokers) -> Broker:
    """A Kafka-compatible broker of this session; clients connect to `.bootstrap`."""
    by_marker: Mapping[str, str]
    by_marker, is_secure = getattr(request, "param", ({}, False))
    properties = {**_ini_properties(request.config), **by_marker}
    try:
        return _drumlin_brokers.get(properties, is_secure=is_secure)
    except BrokerFailed as error:  # the message says everything, a traceback would distract
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
def drumlin_topic(request: pytest.FixtureRequest, drumlin_broker: Broker) -> Iterator[str]:
    """The name of a new topic, which is deleted after the test."""
    mark = request.node.get_closest_marker("drumlin_topic")
    partitions, config = (1, {}) if mark is None else _arguments(_topic_marker, mark)
    with drumlin_broker.topic(request.node.name, partitions, config) as topic:
        yield topic


@pytest.fixture
def drumlin_client(drumlin_broker: Broker) -> Iterator[Client]:
    """A client that is connected to `drumlin_broker`."""
    import drumlin

    with drumlin.connect(drumlin_broker.bootstrap, security=drumlin_broker.security) as client:
        yield client


# -- arguments of markers, and settings of pytest.ini --------------------------------------------


def _broker_marker(
    config: Config | None = None, secure: bool | None = None
) -> tuple[Config, bool | None]:
    return config or {}, secure


def _topic_marker(partitions: int = 1, config: Config | None = None) -> tuple[int, Config]:
    return partitions, config or {}


def _arguments(takes: Callable[..., Any], mark: pytest.Mark) -> Any:
    try:
        return takes(*mark.args, **mark.kwargs)
    except TypeError as error:
        raise pytest.UsageError(f"@pytest.mark.{mark.name}: {error}") from None


def _ini_properties(config: pytest.Config) -> dict[str, str]:
    properties = {}
    for line in config.getini(_INI):
        key, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"{_INI}: {line!r} is not KEY=VALUE")
        properties[key.strip()] = value.strip()
    return properties
