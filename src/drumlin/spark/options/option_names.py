"""The names of all options, so that a misspelt or misplaced option does not go unnoticed.

Like Spark's Kafka source and sink, ours ignore unknown options, but they warn.
Programs give the same options to Spark's connector and to this one, and options of Kafka's clients
that have no effect here: all of these count as known.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from drumlin.spark.options.client_rows import BOOTSTRAP, CLIENT_ROWS, INCLUDE_HEADERS, STRICT
from drumlin.spark.options.option import Direction, Option
from drumlin.spark.options.option_values import OptionError
from drumlin.spark.options.sink_rows import SINK_ROWS, TOPIC
from drumlin.spark.options.source_rows import (
    ASSIGN,
    SNAPSHOT,
    SOURCE_ROWS,
    SUBSCRIBE,
    SUBSCRIBE_PATTERN,
)

_logger = logging.getLogger(__name__)
_Value = TypeVar("_Value")

#: Names that Spark, or another part of a program, adds to a source's options. Those of the second
#: line are added for a table, and then each option once more as `option.…`.
_OF_SPARK: Final = (
    "path paths checkpointLocation serialization.format "
    "provider owner comment location external is_managed_location collation table_type"
)
_OF_TABLES: Final = "option."
#: Options of Spark's Kafka source without an effect here: no group is joined.
_OF_SPARKS_SOURCE: Final = "groupIdPrefix"

#: Options of Kafka's consumer.
_OF_KAFKA: Final = (
    "allow.auto.create.topics auto.commit.interval.ms auto.include.jmx.reporter auto.offset.reset "
    "bootstrap.servers check.crcs client.dns.lookup client.id client.rack config.providers "
    "connections.max.idle.ms default.api.timeout.ms enable.auto.commit enable.metrics.push "
    "exclude.internal.topics fetch.max.bytes fetch.max.wait.ms fetch.min.bytes group.id "
    "group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms "
    "interceptor.classes internal.leave.group.on.close "
    "internal.throw.on.fetch.stable.offset.unsupported isolation.level key.deserializer "
    "max.partition.fetch.bytes max.poll.interval.ms max.poll.records metadata.max.age.ms "
    "metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters "
    "metrics.num.samples metrics.recording.level metrics.sample.window.ms "
    "partition.assignment.strategy receive.buffer.bytes reconnect.backoff.max.ms "
    "reconnect.backoff.ms request.timeout.ms retry.backoff.max.ms retry.backoff.ms "
    "sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd "
    "sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name "
    "sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor "
    "sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms "
    "sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds "
    "sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor "
    "sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms "
    "sasl.mechanism sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud "
    "sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss "
    "sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds "
    "sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file "
    "sasl.oauthbearer.assertion.private.key.file "
    "sasl.oauthbearer.assertion.private.key.passphrase "
    "sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id "
    "sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.clock.skew.seconds "
    "sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer "
    "sasl.oauthbearer.header.urlencode sasl.oauthbearer.jwks.endpoint.refresh.ms "
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms "
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url "
    "sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class "
    "sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name "
    "sasl.oauthbearer.token.endpoint.url security.protocol security.providers send.buffer.bytes "
    "session.timeout.ms share.acknowledgement.mode share.acquire.mode "
    "socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms ssl.cipher.suites "
    "ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.engine.factory.class "
    "ssl.key.password ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key "
    "ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider "
    "ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates "
    "ssl.truststore.location ssl.truststore.password ssl.truststore.type value.deserializer"
)

#: Drumlin's own options among them.
_PROVIDER: Final = "kafka.sasl.oauthbearer.token.provider"

#: Options of Kafka's producer that its consumer does not have.
_OF_PRODUCERS: Final = (
    "acks batch.size buffer.memory compression.gzip.level compression.lz4.level compression.type "
    "compression.zstd.level delivery.timeout.ms enable.idempotence key.serializer linger.ms "
    "max.block.ms max.in.flight.requests.per.connection max.request.size metadata.max.idle.ms "
    "partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms "
    "partitioner.class partitioner.ignore.keys retries transaction.timeout.ms "
    "transaction.two.phase.commit.enable transactional.id value.serializer"
)

#: In the order of the documents.
ROWS: Final[tuple[Option[Any], ...]] = (
    BOOTSTRAP,
    *SOURCE_ROWS,
    *SINK_ROWS,
    INCLUDE_HEADERS,
    STRICT,
    *CLIENT_ROWS,
)

#: All known names, by the name in lower case.
_KNOWN: Final = {
    **{name.lower(): name for name in (*_OF_SPARK.split(), _OF_SPARKS_SOURCE, _PROVIDER)},
    **{f"kafka.{name}": f"kafka.{name}" for name in (*_OF_KAFKA.split(), *_OF_PRODUCERS.split())},
    **{row.key: row.name for row in ROWS},
}
#: The option that shows that a direction is meant: a view may have options of several directions.
_MARKS: Final[dict[Direction, frozenset[str]]] = {
    "source": frozenset(row.key for row in (SUBSCRIBE, SUBSCRIBE_PATTERN, ASSIGN)),
    "state": frozenset((SNAPSHOT.key,)),
    "sink": frozenset((TOPIC.key,)),
}


def unknown_options(names: Iterable[str]) -> list[str]:
    """A phrase for each name (in any case) that is not an option, with the closest known name."""
    return [
        _with_hint(name)
        for name in sorted(each.lower() for each in names)
        if name not in _KNOWN and not name.startswith(_OF_TABLES)
    ]


def misplaced_options(names: Iterable[str], *directions: Direction) -> list[str]:
    """A phrase for each option (in any case) that belongs only to another direction.

    Options of a direction that is also meant are left out: a view with `subscribe` and `topic` is
    read and written. So are options of Kafka's clients: programs pass the same ones everywhere.
    """
    given = {each.lower() for each in names}
    meant = {*directions, *(each for each, marks in _MARKS.items() if marks & given)}
    return [
        f"'{row.name}' (only a {row.directions[0]} has it)"
        for row in ROWS
        if row.key in given and not meant & set(row.directions) and "kafka" not in row.key
    ]


def refuse_unknown(names: Iterable[str], *directions: Direction) -> None:
    """
    Raises:
        OptionError: some names are unknown, or are options of other directions.
    """
    given = list(names)
    refused = [*unknown_options(given), *misplaced_options(given, *directions)]
    if refused:
        raise OptionError(f"strictOptions is true, and there is no option {', '.join(refused)}")


def check_keywords(names: Iterable[str], *directions: Direction) -> None:
    """Check the options of a function, which no other connector shares.

    Raises:
        OptionError: some names are unknown, or are options of other directions. Unknown options of
            Kafka may be newer than this version: they are ignored, with a warning.
    """
    given = [each.lower() for each in names]
    of_kafka = [each for each in given if each.startswith("kafka.")]
    own = [each for each in given if not each.startswith("kafka.")]
    refused = [*unknown_options(own), *misplaced_options(own, *directions)]
    if refused:
        raise OptionError(f"there is no option {', '.join(refused)}")
    warn_of_unknown(of_kafka)


def kept_for(options: Mapping[str, _Value], direction: Direction) -> dict[str, _Value]:
    """The options without those that are only for other directions."""
    others = {row.key for row in ROWS if direction not in row.directions}
    return {name: each for name, each in options.items() if name.lower() not in others}


def warn_of_unknown(names: Iterable[str]) -> None:
    """Warn of each option that has no effect because its name is unknown."""
    for phrase in unknown_options(names):
        _logger.warning("the data source 'drumlin' ignores an option it does not have: %s", phrase)


def warn_of_misplaced(names: Iterable[str], direction: Direction) -> None:
    """Warn of each option that has no effect because it belongs to the other direction."""
    for phrase in misplaced_options(names, direction):
        _logger.warning("a %s of 'drumlin' ignores the option %s", direction, phrase)


def _with_hint(name: str) -> str:
    close = difflib.get_close_matches(name, _KNOWN, 1, cutoff=0.75)
    return f"'{name}' (did you mean '{_KNOWN[close[0]]}'?)" if close else f"'{name}'"
