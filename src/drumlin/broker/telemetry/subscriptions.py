"""Subscriptions to metrics of clients, as the resources CLIENT_METRICS have them. Pure.

Codes and rules are Kafka's, except that patterns are in RE2's syntax, as all of clients' are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from drumlin.config.config_error import ConfigError
from drumlin.config.keys import client_metrics_keys
from drumlin.coordination.regexes import compile_regex, matches, takes_long
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: What patterns know of a client, by name.
Client: TypeAlias = Mapping[str, str]
CLIENT_ID: Final = "client_id"
_NAMES: Final = (
    "client_instance_id",
    CLIENT_ID,
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
#: Characters of each: many clients are remembered.
_TEXT_MAX: Final = 250
#: All metrics.
ALL: Final = "*"
INTERVAL_MS: Final = 300_000
_INTERVAL_KEY, _MATCH_KEY, _METRICS_KEY = "interval.ms", "match", "metrics"
_INTERVAL_MS_MIN: Final = 100
_INTERVAL_MS_MAX: Final = 3_600_000


class Subscription(NamedTuple):
    """One subscription."""

    metrics: tuple[str, ...]
    interval_ms: int
    patterns: Mapping[str, Any]

    def is_about(self, client: Client) -> bool:
        """Whether the client is asked. A text that takes long to be matched does not match."""
        return all(
            not takes_long(pattern, client[name]) and matches(pattern, client[name])
            for name, pattern in self.patterns.items()
        )


class Wanted(NamedTuple):
    """What all subscriptions together want of a client."""

    metrics: tuple[str, ...] = ()
    interval_ms: int = INTERVAL_MS


def check_subscription(name: str, configs: Mapping[str, str]) -> None:
    """Check a whole configuration, as requested by a client.

    Raises:
        KafkaError: with Kafka's code for what is wrong.
    """
    if not name:
        message = "a subscription must be named: there is none for all"
        raise KafkaError(ErrorCode.invalid_request, message)
    unknown = sorted(configs.keys() - client_metrics_keys().keys())
    if unknown:
        message = f"subscriptions to metrics of clients have no key {unknown[0][:100]}"
        raise KafkaError(ErrorCode.invalid_request, message)
    read_subscription(configs)


def read_subscription(configs: Mapping[str, str]) -> Subscription:
    """
    Raises:
        KafkaError: a value is not allowed.
    """
    values: dict[str, Any] = {}
    for name, key in client_metrics_keys().items():
        try:
            values[name] = key.parse(configs.get(name, key.default or ""))
        except ConfigError as error:
            raise KafkaError(ErrorCode.invalid_config, str(error)) from None
    interval_ms = values[_INTERVAL_KEY]
    if not _INTERVAL_MS_MIN <= interval_ms <= _INTERVAL_MS_MAX:
        message = (
            f"interval.ms = {interval_ms}: must be from {_INTERVAL_MS_MIN} to {_INTERVAL_MS_MAX}"
        )
        raise KafkaError(ErrorCode.invalid_request, message)
    return Subscription(values[_METRICS_KEY], interval_ms, _patterns(values[_MATCH_KEY]))


def _patterns(entries: Iterable[str]) -> dict[str, Any]:
    patterns = {}
    for entry in entries:
        name, equals, text = (part.strip() for part in entry.partition("="))
        if not equals or not text or "=" in text or name not in _NAMES:
            known = ", ".join(_NAMES)
            message = f"match: {entry[:100]!r} is not NAME=REGULAR EXPRESSION of {known}"
            raise KafkaError(ErrorCode.invalid_config, message)
        try:
            patterns[name] = compile_regex(text)
        except KafkaError as error:
            raise KafkaError(ErrorCode.invalid_config, f"match: {error.message}") from None
    return patterns


class Subscriptions:
    """All subscriptions of the cluster."""

    def __init__(self) -> None:
        self._of: dict[str, Subscription] = {}
        #: What is wanted of any client, once for all of whom the same is.
        self._shared: dict[Wanted, Wanted] = {}
        #: Raised by each change: what was found for a client before is to be found again.
        self.version = 0

    def put(self, name: str, configs: Mapping[str, str]) -> None:
        """Take over a configuration; one that cannot be read asks nobody for anything."""
        self.version += 1
        self._shared.clear()
        self._of.pop(name, None)
        if configs:
            with contextlib.suppress(KafkaError):  # stored by another program, or version
                self._of[name] = read_subscription(configs)

    async def wanted_of(self, client: Client) -> Wanted:
        """What is wanted of a client. May give way."""
        metrics: dict[str, None] = {}
        interval_ms = INTERVAL_MS
        for each in list(self._of.values()):
            await give_way()
            if each.is_about(client):
                metrics.update(dict.fromkeys(each.metrics))
                interval_ms = min(interval_ms, each.interval_ms)
        wanted = Wanted((ALL,) if ALL in metrics else tuple(sorted(metrics)), interval_ms)
        return self._shared.setdefault(wanted, wanted)


def client_of(
    instance_id: UUID, client_id: str | None, software: tuple[str, str], peer: tuple[str, int]
) -> Client:
    """A client by what its connection and requests say of it; long texts are cut."""
    texts = (str(instance_id), client_id or "", *software, peer[0], str(peer[1]))
    return {name: text[:_TEXT_MAX] for name, text in zip(_NAMES, texts, strict=True)}
