"""Rules for several keys together: against contradictory values, and excessive changes.

Pure. `check_together` applies to any configuration. `check_change` applies to changes on a running
broker, and refuses what Kafka refuses, even for keys without effect here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from drumlin.config.config_error import ConfigError
from drumlin.config.keys import changeable_broker_key, of_a_listener
from drumlin.config.listeners import Listener
from drumlin.config.synonyms import BROKER_SYNONYMS, topic_default
from drumlin.config.values import ValueType

_Values = Mapping[str, Any]
_Given = Mapping[str, str]

_MIB: Final = 1 << 20
_THREADS: Final = (
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
)
_LIMITS_OF_CONNECTIONS: Final = ("max.connections", "max.connection.creation.rate")
#: Tiered storage (KIP-405): topic keys of the local retention and of the total retention.
_LOCAL_RETENTION: Final = (
    ("log.local.retention.ms", "retention.ms"),
    ("log.local.retention.bytes", "retention.bytes"),
)
#: The only allowed class names: classes of Kafka whose behaviour is built in here.
_BUILT_IN: Final = {
    "metric.reporters": "org.apache.kafka.common.metrics.JmxReporter",
    "principal.builder.class": (
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
    ),
    "ssl.engine.factory.class": "org.apache.kafka.common.security.ssl.DefaultSslEngineFactory",
}
#: Keys that a running broker accepts only for a single listener.
_KEYS_AND_CERTIFICATES: Final = re.compile(
    r"ssl\.key\.password"
    r"|ssl\.keystore\.(certificate\.chain|key|location|password|type)"
    r"|ssl\.truststore\.(certificates|location|password|type)"
)


#: Keys that protect a cluster, each with the consequence of ignoring it.
_GUARDS: Final = {
    "client.quota.callback.class": "no class of Java can be loaded here: nothing would be limited",
    "security.providers": "no class of Java can be loaded here",
    "create.topic.policy.class.name": "policies are not served: any topic can be created",
    "alter.config.policy.class.name": "policies are not served: any configuration can be set",
}


#: The same, for keys of a cluster with ZooKeeper.
_GUARDS_OF_ZOOKEEPER: Final = {
    "zookeeper.metadata.migration.enable": "what is in ZooKeeper cannot be moved to KRaft",
}


#: Keys that name a Java class, and the only allowed one: its behaviour is built in. Other classes
#: cannot be loaded here.
_ONLY_CLASS: Final = {
    "principal.builder.class": _BUILT_IN["principal.builder.class"],
    "ssl.engine.factory.class": _BUILT_IN["ssl.engine.factory.class"],
    "sasl.server.callback.handler.class": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
    ),
}


def _check_classes(given: _Given) -> None:
    """Check that no Java class is needed for authentication, on any listener or mechanism."""
    for name, text in given.items():
        for key, served in _ONLY_CLASS.items():
            if (name == key or name.endswith(f".{key}")) and text.strip() not in ("", served):
                allowed = f"must be {served}: no class of Java can be loaded here"
                raise _refused(name, given, allowed)


#: Apache Kafka's authorizers with KRaft and with ZooKeeper; both have the same rules.
_AUTHORIZERS: Final = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)


def _check_authorizer(given: _Given) -> None:
    name = "authorizer.class.name"
    authorizer = given.get(name, "").strip()
    if authorizer and authorizer not in _AUTHORIZERS:
        allowed = f"must be {_AUTHORIZERS[0]}: no other class can be loaded here"
        raise _refused(name, given, allowed)
    if authorizer:
        return
    danger = f"without {name} everybody may do everything"
    if given.get("super.users", "").strip():
        raise _refused("super.users", given, danger)
    name = "allow.everyone.if.no.acl.found"
    if given.get(name, "true").strip().lower() != "true":
        raise _refused(name, given, danger)


def check_guards(given: _Given) -> None:
    """Refuse to start if the operator relies on a protection that does not exist here.

    Raises:
        ConfigError: a key that protects the cluster is set, and has no effect here.
    """
    for name, danger in _GUARDS.items():
        if given.get(name, "").strip():
            raise _refused(name, given, f"must not be set, as {danger}")
    _check_classes(given)
    _check_authorizer(given)
    if given.get("zookeeper.connect", "").strip():
        for name, danger in _GUARDS_OF_ZOOKEEPER.items():
            if _is_true(given, name):
                raise _refused(name, given, f"must not be true, as {danger}")
        _check_zookeeper_access(given)


def _check_zookeeper_access(given: _Given) -> None:
    has_tls = _is_true(given, "zookeeper.ssl.client.enable")
    if has_tls:
        _check_zookeeper_tls(given)
    has_certificate = has_tls and bool(given.get("zookeeper.ssl.keystore.location", "").strip())
    has_name = bool(given.get("drumlin.zookeeper.digest", "").strip())
    name = "zookeeper.set.acl"
    if _is_true(given, name) and not (has_name or has_certificate):
        allowed = "needs drumlin.zookeeper.digest, or TLS with zookeeper.ssl.keystore.location: "
        raise _refused(name, given, f"{allowed}who may change it otherwise?")


def _check_zookeeper_tls(given: _Given) -> None:
    for name in ("zookeeper.ssl.truststore.type", "zookeeper.ssl.keystore.type"):
        if given.get(name, "").strip().upper() not in ("", "PEM"):
            raise _refused(name, given, "can only be PEM")
    for name in ("zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable"):
        if _is_true(given, name):
            allowed = "must not be true, as revoked certificates are not looked up"
            raise _refused(name, given, allowed)
    name = "zookeeper.ssl.cipher.suites"
    if given.get(name, "").strip():
        raise _refused(name, given, "must not be set, as OpenSSL's are used")
    name = "zookeeper.ssl.enabled.protocols"
    if not given.get(name, "").strip():
        name = "zookeeper.ssl.protocol"
    named = {each.strip() for each in given.get(name, "TLSv1.2").split(",")}
    if not named & {"TLSv1.2", "TLSv1.3"}:
        raise _refused(name, given, "must have TLSv1.2 or TLSv1.3")


def _is_true(given: _Given, name: str) -> bool:
    return given.get(name, "").strip().lower() == "true"


def check_together(values: _Values, given: _Given) -> None:
    """Check that the values of a configuration are consistent.

    Raises:
        ConfigError: they are not.
    """
    _check_log(values, given)
    if given.get("broker.id", values["node.id"]) != given.get("node.id", values["node.id"]):
        raise _refused("broker.id", given, "must be the same as node.id where both are given")
    listener, protocol = "inter.broker.listener.name", "security.inter.broker.protocol"
    if listener in given and protocol in given:
        raise _refused(listener, given, f"must not be given together with {protocol}")
    if 0 < values["queued.max.request.bytes"] < values["socket.request.max.bytes"]:
        allowed = "must be at least socket.request.max.bytes, or -1"
        raise _refused("queued.max.request.bytes", given, allowed)
    if values["group.min.session.timeout.ms"] > values["group.max.session.timeout.ms"]:
        allowed = "must not be above group.max.session.timeout.ms"
        raise _refused("group.min.session.timeout.ms", given, allowed)
    exceptions = values["max.connections.per.ip.overrides"].strip()
    if values["max.connections.per.ip"] == 0 and not exceptions:
        allowed = "can be 0 only where max.connections.per.ip.overrides lets some client in"
        raise _refused("max.connections.per.ip", given, allowed)
    for kind in ("consumer", "share", "streams"):
        name = f"group.{kind}.assignment.interval.ms"
        least, greatest = (f"group.{kind}.{end}.assignment.interval.ms" for end in ("min", "max"))
        if not values[least] <= values[name] <= values[greatest]:
            raise _refused(name, given, f"must be between {least} and {greatest}")
    _check_cordoned(values, given)


def _check_log(values: _Values, given: _Given) -> None:
    if topic_default("retention.ms", values) == 0:
        name = next(name for name, _ in BROKER_SYNONYMS["retention.ms"] if values[name] == 0)
        raise _refused(name, given, "must be -1 (forever) or at least 1")
    for topic_key, least in (("segment.ms", 1), ("segment.jitter.ms", 0)):
        value = topic_default(topic_key, values)
        if isinstance(value, int) and value < least:
            name = BROKER_SYNONYMS[topic_key][0][0]
            raise _refused(name, given, f"must be at least {least}")
    buffer_bytes = values["log.cleaner.dedupe.buffer.size"]
    if buffer_bytes < values["log.cleaner.threads"] * _MIB:
        allowed = "must be at least 1 MiB (1048576) for each of log.cleaner.threads"
        raise _refused("log.cleaner.dedupe.buffer.size", given, allowed)


def _check_cordoned(values: _Values, given: _Given) -> None:
    cordoned = values["cordoned.log.dirs"]
    directories = values["log.dirs"] or values["log.dir"]
    if cordoned == ("*",) or set(cordoned) <= set(directories):
        return
    if not _absolute(cordoned) <= _absolute(directories):
        raise _refused("cordoned.log.dirs", given, "must be some of log.dirs, or * for all")


def _absolute(paths: Iterable[str]) -> set[Path]:
    return {Path(each).absolute() for each in paths}


def check_change(
    before: _Values, after: _Values, given: _Given, listeners: tuple[Listener, ...]
) -> None:
    """Check that a running broker may change from one configuration to the other.

    `given` has all keys set at start or later; `listeners` are the broker's.

    Raises:
        ConfigError: the change is refused.
    """
    for name in _THREADS:
        _check_thread_count(name, before[name], after[name], given)
    for name in _LIMITS_OF_CONNECTIONS:
        if after[name] == 0:
            raise _refused(name, given, "must be at least 1")
    for name, topic_key in _LOCAL_RETENTION:
        local, whole = after[name], topic_default(topic_key, after)
        is_new = (local, whole) != (before[name], topic_default(topic_key, before))
        if is_new and not _is_part(local, whole):
            whole_key = BROKER_SYNONYMS[topic_key][0][0]
            raise _refused(name, given, f"must not be above {whole_key}, which is {whole}")
    for name in _BUILT_IN:
        if after[name] not in (None, before[name]):
            _check_class(name, name, after[name], given)
    _check_listeners_own(given, listeners)


def check_for_one_broker(changed: _Given) -> None:
    """Check that these keys may be changed for a broker as a whole, not only for a listener.

    Raises:
        ConfigError: a key is for a listener.
    """
    for name in changed:
        if is_key_or_certificate(name):
            # The message omits the value, which may be a secret.
            allowed = f"can be changed only for a listener, as listener.name.NAME.{name}"
            raise ConfigError(name, "...", allowed)


def is_key_or_certificate(name: str) -> bool:
    """Whether a listener's key may change at run time, as it is about keys and certificates."""
    return _KEYS_AND_CERTIFICATES.fullmatch(name) is not None


def is_for_one_broker(name: str) -> bool:
    """Whether a key for a listener can be set only for one broker, not for the whole cluster."""
    parts = of_a_listener(name)
    return parts is not None and parts[1] not in _LIMITS_OF_CONNECTIONS


def _check_thread_count(name: str, before: int, after: int, given: _Given) -> None:
    if after == before:
        return
    least, greatest = max(before // 2, 1), before * 2
    if not least <= after <= greatest:
        allowed = f"can go from {before} to between {least} and {greatest} in one step"
        raise _refused(name, given, allowed)


def _is_part(local: int, whole: Any) -> bool:
    """Whether local retention is within total retention; -1 means no limit, -2 the same limit."""
    return local == -2 or whole == -1 or 0 <= local <= whole


def _check_class(name: str, given_as: str, value: Any, given: _Given) -> None:
    built_in = _BUILT_IN[name]
    if any(each != built_in for each in (value if isinstance(value, tuple) else (value,))):
        raise _refused(given_as, given, f"must be {built_in}: no other class can be loaded here")


def _check_listeners_own(given: _Given, listeners: tuple[Listener, ...]) -> None:
    """Check keys for a single listener; Kafka reads only those that can be changed at run time."""
    names = {listener.name.lower() for listener in listeners}
    for name, text in given.items():
        parts = of_a_listener(name)
        key = changeable_broker_key(parts[1]) if parts else None
        if parts is None or key is None or not key.is_dynamic:
            continue
        try:
            value = key.parse(text)
        except ConfigError as error:
            raise _refused(name, given, error.allowed) from None
        if key.value_type is ValueType.CLASS:
            _check_class(key.name, name, value, given)
        if key.name in _LIMITS_OF_CONNECTIONS and value == 0 and parts[0] in names:
            raise _refused(name, given, "must be at least 1")


def _refused(name: str, given: _Given, allowed: str) -> ConfigError:
    return ConfigError(name, given.get(name), allowed)
