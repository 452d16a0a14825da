"""A listener's SASL settings, as Kafka names them.

Settings that cannot be followed are refused, so that nobody is let in by mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from drumlin.broker.login.dispatcher import LoginSettings
from drumlin.broker.login.mechanisms import oauthbearer, plain
from drumlin.broker.login.mechanisms.exchange import Exchange
from drumlin.broker.login.mechanisms.oauthbearer import OAuthBearerExchange, Validate
from drumlin.broker.login.mechanisms.plain import PlainExchange
from drumlin.broker.login.mechanisms.scram import HASHES, Credentials, ScramExchange
from drumlin.config.config_error import ConfigError
from drumlin.peer.security.jaas import parse_jaas
from drumlin.peer.security.secret import Secret
from drumlin.peer.security.settings import SecurityOptionError

if TYPE_CHECKING:
    from drumlin.broker.login.machine_secret import MachineSecret
    from drumlin.config.broker import BrokerConfig

_USER: Final = "user_"
#: Options of a login module that takes tokens without a signature.
_UNSECURED: Final = "unsecured"
_SCHEMES: Final = ("https", "http", "file")
_SCHEMES_ALLOWED: Final = "must begin with https://, http:// or file://"


def login_settings(
    config: BrokerConfig,
    listener: str,
    credentials: Credentials,
    secret: MachineSecret | None,
) -> LoginSettings:
    """The settings of a listener with SASL. `secret`: the one with which brokers log in there.

    Raises:
        ConfigError: a mechanism is not served, or its settings are not valid.
    """
    mechanisms: dict[str, Callable[[], Exchange]] = {}
    for mechanism in tuple(config.of_listener(listener, "sasl.enabled.mechanisms") or ()):
        if mechanism == plain.MECHANISM:
            mechanisms[mechanism] = partial(PlainExchange, _users(config, listener))
        elif mechanism in HASHES:
            mechanisms[mechanism] = partial(ScramExchange, mechanism, credentials)
        elif mechanism == oauthbearer.MECHANISM:
            mechanisms[mechanism] = partial(OAuthBearerExchange, _validator(config, listener))
        else:
            served = (plain.MECHANISM, *HASHES, oauthbearer.MECHANISM)
            allowed = f"{mechanism} is not served: {', '.join(served)}"
            raise _refused(listener, "sasl.enabled.mechanisms", allowed)
    if not mechanisms:
        raise _refused(listener, "sasl.enabled.mechanisms", "names none: nobody could log in")
    return _settings(config, listener, mechanisms, secret)


def settings_of_machine(
    config: BrokerConfig, listener: str, secret: MachineSecret
) -> LoginSettings:
    """The settings of a listener at which only the brokers of this machine log in."""
    return _settings(config, listener, {}, secret)


def _settings(
    config: BrokerConfig,
    listener: str,
    mechanisms: Mapping[str, Callable[[], Exchange]],
    secret: MachineSecret | None,
) -> LoginSettings:
    return LoginSettings(
        listener,
        mechanisms,
        int(config.of_listener(listener, "connections.max.reauth.ms")),
        config.of_listener(listener, "connection.failed.authentication.delay.ms") / 1000,
        None if secret is None else secret.exchange,
    )


def _users(config: BrokerConfig, listener: str) -> Mapping[str, Secret]:
    """The users of PLAIN, with their passwords."""
    return {
        name.removeprefix(_USER): Secret(password)
        for name, password in jaas_of(config, listener, plain.MECHANISM).items()
        if name.startswith(_USER)
    }


def _validator(config: BrokerConfig, listener: str) -> Validate:
    from drumlin.broker.login.provider_keys import ProviderKeys
    from drumlin.broker.login.tokens import SignedTokens, TokenRules, UnsecuredTokens

    def value(name: str) -> Any:
        return config.of_listener(listener, f"sasl.oauthbearer.{name}")

    rules = TokenRules(
        audiences=tuple(value("expected.audience") or ()),
        issuer=value("expected.issuer"),
        skew_s=value("clock.skew.seconds"),
        name_claim=value("sub.claim.name"),
        scope_claim=value("scope.claim.name"),
    )
    url = value("jwks.endpoint.url")
    if url:
        if urlsplit(url).scheme not in _SCHEMES:
            raise _refused(listener, "sasl.oauthbearer.jwks.endpoint.url", _SCHEMES_ALLOWED)
        waits = ("refresh.ms", "retry.backoff.ms", "retry.backoff.max.ms")
        keys = ProviderKeys(url, *(value(f"jwks.endpoint.{each}") / 1000 for each in waits))
        return SignedTokens(keys, rules).validate
    options = jaas_of(config, listener, oauthbearer.MECHANISM)
    if any(name.startswith(_UNSECURED) for name in options):
        return UnsecuredTokens(rules).validate
    allowed = "is missing: it has the keys of those who may sign tokens"
    raise _refused(listener, "sasl.oauthbearer.jwks.endpoint.url", allowed)


def jaas_of(config: BrokerConfig, listener: str, mechanism: str) -> Mapping[str, str]:
    """The options of a mechanism's login module, which are secrets.

    Raises:
        ConfigError: it is missing, or not valid.
    """
    key = f"{mechanism.lower()}.sasl.jaas.config"
    text = config.text_of_listener(listener, key)
    if text is None:
        raise _refused(listener, key, "is missing")
    try:
        return parse_jaas(text).options
    except SecurityOptionError as error:
        raise _refused(listener, key, str(error)) from None


def _refused(listener: str, key: str, allowed: str) -> ConfigError:
    # The value is left out, as it may be a secret.
    return ConfigError(f"{key} of listener {listener}", "...", allowed)
