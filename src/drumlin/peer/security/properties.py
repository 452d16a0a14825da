"""Security in the properties of Kafka's clients: `security.protocol`, `ssl.…`, `sasl.…`.

Owns the list of these properties and their meaning. A property that is unknown, unsupported or in
conflict with another is refused by name: a connection is never less secure than the properties
demand. Error messages show no values, which may contain passwords.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from drumlin.peer.security.jaas import LoginModule, parse_jaas
from drumlin.peer.security.settings import (
    SCRAM_MECHANISMS,
    TLS_VERSIONS,
    Login,
    OAuthBearer,
    Plain,
    Scram,
    SecurityOptionError,
    Tls,
    is_pem,
)

PREFIXES: Final = ("security.", "ssl.", "sasl.")

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MODULES: Final = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
}
_TLS: Final = (
    "ssl.protocol",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.key.password",
)
_ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
#: The name of a Python function; Kafka's clients do not have this property.
_PROVIDER: Final = "sasl.oauthbearer.token.provider"
_OAUTH: Final = {
    _ENDPOINT: "",
    "sasl.oauthbearer.client.credentials.client.id": "clientId",
    "sasl.oauthbearer.client.credentials.client.secret": "clientSecret",
    "sasl.oauthbearer.scope": "scope",
}
_CALLBACK_HANDLER: Final = "sasl.login.callback.handler.class"
_SASL: Final = ("sasl.mechanism", "sasl.jaas.config", _CALLBACK_HANDLER, _PROVIDER, *_OAUTH)
#: Properties that tune Java code without a counterpart here: accepted, but without effect.
_WITHOUT_EFFECT: Final = (
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.retry.backoff.ms",
    "ssl.keymanager.algorithm",
    "ssl.trustmanager.algorithm",
)
_KNOWN: Final = ("security.protocol", *_TLS, *_SASL, *_WITHOUT_EFFECT)
_REFUSED: Final = {
    "ssl.cipher.suites": "the cipher suites are those of OpenSSL's configuration",
    "sasl.client.callback.handler.class": "Java classes cannot be run here",
    "sasl.login.class": "Java classes cannot be run here",
    "security.providers": "Java classes cannot be run here",
    "ssl.engine.factory.class": "Java classes cannot be run here",
}
_NO_KERBEROS: Final = "GSSAPI (Kerberos) is not supported; there are " + ", ".join(_MODULES)

_NO_JAVA_OF_AMAZON: Final = (
    "AWS_MSK_IAM is a class of Java; Amazon's MSK takes OAUTHBEARER as well, with "
    f"{_PROVIDER}=aws_msk_iam_sasl_signer.MSKAuthTokenProvider:generate_auth_token, and the "
    "region as an option of OAuthBearerLoginModule in sasl.jaas.config"
)


class _Properties:
    """The security properties by Kafka's names, which have a `prefix` in the user's options."""

    def __init__(self, given: Mapping[str, str], prefix: str) -> None:
        self._prefix = prefix
        self._values = {
            name.removeprefix(prefix): value
            for name, value in given.items()
            if name.startswith(tuple(prefix + each for each in PREFIXES))
        }
        for name, value in self._values.items():
            if not isinstance(value, str):
                is_function = name == _PROVIDER and callable(value)
                hint = ": 'module:function', which is imported where it is called"
                raise self.error(name, f"expected a string{hint if is_function else ''}")

    def get(self, name: str) -> str | None:
        """The value of a property; a blank one counts as missing, as in Kafka."""
        value = self._values.get(name)
        return value if value is not None and value.strip() else None

    def has_value(self, name: str) -> bool:
        """Whether the property is given, blank or not."""
        return name in self._values

    def error(self, name: str, why: str) -> SecurityOptionError:
        return SecurityOptionError(f"option '{self._prefix}{name}': {why}")

    def names(self, start: str) -> list[str]:
        """The names that begin with `start` and have an effect."""
        begun = (name for name in self._values if name.startswith(start))
        return sorted(name for name in begun if name not in _WITHOUT_EFFECT)

    def check_names(self) -> None:
        if (self.get("sasl.mechanism") or "").strip().upper() == "AWS_MSK_IAM":
            raise self.error("sasl.mechanism", _NO_JAVA_OF_AMAZON)
        for name in sorted(self._values):
            if name in _REFUSED:
                raise self.error(name, _REFUSED[name])
            if name.startswith("sasl.kerberos."):
                raise self.error(name, _NO_KERBEROS)
            if name not in _KNOWN:
                hint = _hint(self._prefix, name)
                raise self.error(name, f"there is no such option here{hint}")

    def store_password(self, store: str, hint: str) -> str | None:
        """The password of a store; also checks the given type. PKCS12 and JKS are distinguished
        later, by the file's content: like Java, this accepts a PKCS12 store named `.jks`.
        """
        kind = (self.get(f"{store}.type") or "").strip().upper()
        location, password = self.get(f"{store}.location"), self.get(f"{store}.password")
        if kind not in {"", "PEM", "PKCS12", "JKS"}:
            raise self.error(f"{store}.type", "there are PEM and PKCS12")
        if kind in {"PKCS12", "JKS"} and location is None:
            raise self.error(f"{store}.type", f"{store}.location is missing; text is PEM")
        if password is not None and kind == "PEM":
            raise self.error(f"{store}.password", f"a PEM store has no password{hint}")
        if password is not None and location is None:
            raise self.error(f"{store}.password", f"there is no store: {store}.location is missing")
        return password


def parts_of(given: Mapping[str, str], prefix: str = "") -> tuple[Tls | None, Login | None]:
    """The security settings in the properties; other properties are ignored.

    Raises:
        SecurityOptionError: a property is invalid; the message has its name, not its value.
    """
    _refuse_other_spellings(given, prefix)
    properties = _Properties(given, prefix)
    properties.check_names()
    protocol = (properties.get("security.protocol") or "PLAINTEXT").strip().upper()
    if protocol not in _PROTOCOLS:
        raise properties.error("security.protocol", f"expected one of {', '.join(_PROTOCOLS)}")
    for start, has_part in (("ssl.", protocol.endswith("SSL")), ("sasl.", "SASL" in protocol)):
        names = properties.names(start)
        if names and not has_part:
            why = f"it has no meaning while {prefix}security.protocol is {protocol}"
            raise properties.error(names[0], why)
    tls = _tls(properties) if protocol.endswith("SSL") else None
    return tls, _login(properties) if "SASL" in protocol else None


def _refuse_other_spellings(given: Mapping[str, str], prefix: str) -> None:
    """Refuse other libraries' names, as ignoring these would mean a plaintext connection."""
    families = tuple(prefix + each for each in PREFIXES)
    for name in sorted(given):
        usual = name.strip().lower().replace("_", ".").removeprefix("kafka.")
        if usual.startswith(PREFIXES) and not name.startswith(families):
            hint = _hint(prefix, usual)
            raise SecurityOptionError(f"option '{name}': there is no such option here{hint}")


def _tls(properties: _Properties) -> Tls:
    trusted_password = properties.store_password("ssl.truststore", "")
    store_password = properties.store_password("ssl.keystore", "; its key has: ssl.key.password")
    ca = _one_of(properties, "ssl.truststore.certificates", "ssl.truststore.location")
    chain = _one_of(properties, "ssl.keystore.certificate.chain", "ssl.keystore.location")
    key = properties.get("ssl.keystore.key")
    if key is not None and properties.get("ssl.keystore.certificate.chain") is None:
        raise properties.error("ssl.keystore.key", "ssl.keystore.certificate.chain is missing")
    if chain is not None and key is None and properties.get("ssl.keystore.location") is None:
        raise properties.error("ssl.keystore.certificate.chain", "ssl.keystore.key is missing")
    if key is not None and not is_pem(key):
        raise properties.error("ssl.keystore.key", "expected PEM text (-----BEGIN …)")
    password = properties.get("ssl.key.password")
    if password is not None and chain is None:
        raise properties.error("ssl.key.password", "there is no key: ssl.keystore.… is missing")
    if None not in {password, store_password} and password != store_password:
        why = "a store and its key have one password here, that of ssl.keystore.password"
        raise properties.error("ssl.key.password", why)
    return Tls(
        ca=ca,
        certificate=chain,
        key=key,
        key_password=store_password if password is None else password,
        check_host_name=_checks_host_name(properties),
        versions=_versions(properties),
        ca_password=trusted_password,
    )


def _one_of(properties: _Properties, text_name: str, path_name: str) -> str | None:
    text, path = properties.get(text_name), properties.get(path_name)
    if text is not None and path is not None:
        raise properties.error(text_name, f"{path_name} is there too; only one can be")
    if text is not None and not is_pem(text):
        raise properties.error(text_name, "expected PEM text (-----BEGIN …); a file is a location")
    if path is not None and is_pem(path):
        raise properties.error(path_name, f"expected a path; PEM text goes into {text_name}")
    return text if text is not None else None if path is None else path.strip()


def _checks_host_name(properties: _Properties) -> bool:
    name = "ssl.endpoint.identification.algorithm"
    if not properties.has_value(name):
        return True
    algorithm = properties.get(name)
    if algorithm is None:
        return False
    if algorithm.strip().lower() != "https":
        raise properties.error(
            name, "expected https, or nothing to leave the host's name unchecked"
        )
    return True


def _versions(properties: _Properties) -> tuple[str, ...]:
    """The enabled versions of TLS; `ssl.protocol` is the newest, unless a list is given."""
    newest = (properties.get("ssl.protocol") or "TLSv1.3").strip()
    if newest not in {*TLS_VERSIONS, "TLS"}:
        raise properties.error("ssl.protocol", f"expected one of {', '.join(TLS_VERSIONS)}")
    enabled = properties.get("ssl.enabled.protocols")
    if enabled is None:
        return ("TLSv1.2",) if newest == "TLSv1.2" else TLS_VERSIONS
    wanted = tuple(filter(None, (each.strip() for each in enabled.split(","))))
    if not wanted or any(each not in TLS_VERSIONS for each in wanted):
        raise properties.error("ssl.enabled.protocols", f"there are {', '.join(TLS_VERSIONS)}")
    return wanted


def _login(properties: _Properties) -> Login:
    mechanism = (properties.get("sasl.mechanism") or "GSSAPI").strip().upper()
    if mechanism == "GSSAPI":
        raise properties.error("sasl.mechanism", f"{_NO_KERBEROS}; GSSAPI is Kafka's default")
    if mechanism not in _MODULES:
        raise properties.error("sasl.mechanism", f"expected one of {', '.join(_MODULES)}")
    oauth = properties.names("sasl.oauthbearer.")
    handler = properties.get(_CALLBACK_HANDLER)
    if mechanism != "OAUTHBEARER":
        if oauth:
            raise properties.error(
                oauth[0], f"it has no meaning while sasl.mechanism is {mechanism}"
            )
        if handler is not None:
            raise properties.error(_CALLBACK_HANDLER, "Java classes cannot be run here")
    elif handler is not None and not handler.strip().endswith(".OAuthBearerLoginCallbackHandler"):
        raise properties.error(
            _CALLBACK_HANDLER, "of the classes only OAuthBearerLoginCallbackHandler is known here"
        )
    module = _module(properties, mechanism)
    try:
        return _login_of(properties, mechanism, module.options)
    except SecurityOptionError as error:
        if str(error).startswith("option "):
            raise
        raise properties.error("sasl.jaas.config", str(error)) from None


def _module(properties: _Properties, mechanism: str) -> LoginModule:
    name = "sasl.jaas.config"
    text = properties.get(name)
    if text is None:
        if mechanism == "OAUTHBEARER" and (properties.get(_ENDPOINT) or properties.get(_PROVIDER)):
            return LoginModule(_MODULES[mechanism], {})
        raise properties.error(name, f"it is missing; {mechanism} wants {_MODULES[mechanism]}")
    try:
        module = parse_jaas(text)
    except SecurityOptionError as error:
        raise properties.error(name, str(error)) from None
    if module.name != _MODULES[mechanism]:
        why = f"{module.name} does not go with {mechanism}, which wants {_MODULES[mechanism]}"
        raise properties.error(name, why)
    return module


def _login_of(properties: _Properties, mechanism: str, options: dict[str, str]) -> Login:
    if mechanism == "OAUTHBEARER":
        return _oauth(properties, dict(options))
    unknown = options.keys() - {"username", "password"}
    if unknown:
        raise SecurityOptionError(f"the login module has no option {min(unknown)!r} here")
    missing = {"username", "password"} - options.keys()
    if missing:
        raise SecurityOptionError(f"the login module lacks {' and '.join(sorted(missing))}")
    if mechanism == "PLAIN":
        return Plain(options["username"], options["password"])
    (chosen,) = (each for each in SCRAM_MECHANISMS if each == mechanism)
    return Scram(options["username"], options["password"], chosen)


def _oauth(properties: _Properties, options: dict[str, str]) -> OAuthBearer:
    extensions = {
        name.removeprefix("extension_"): options.pop(name)
        for name in list(options)
        if name.startswith("extension_")
    }
    provider = properties.get(_PROVIDER)
    if provider is not None:
        return _from_provider(properties, provider.strip(), options, extensions)
    endpoint = properties.get(_ENDPOINT)
    if endpoint is None:
        why = f"it is missing: where tokens come from, if not from {_PROVIDER}"
        raise properties.error(_ENDPOINT, why)
    values: dict[str, str | None] = {}
    for name, in_module in _OAUTH.items():
        if name == _ENDPOINT:
            continue
        value, older = properties.get(name), options.pop(in_module, None)
        if value is not None and older is not None:
            raise properties.error(name, f"{in_module} is in sasl.jaas.config too; only one can be")
        values[in_module] = value if value is not None else older
    tls = {name: options.pop(name) for name in list(options) if name.startswith("ssl.")}
    if options:
        raise SecurityOptionError(f"the login module has no option {min(options)!r} here")
    return OAuthBearer(
        token_endpoint=endpoint.strip(),
        client_id=values["clientId"],
        client_secret=values["clientSecret"],
        scope=values["scope"],
        extensions=tuple(sorted(extensions.items())),
        token_tls=parts_of({"security.protocol": "SSL", **tls})[0] or Tls(),
    )


def _from_provider(
    properties: _Properties, provider: str, options: dict[str, str], extensions: dict[str, str]
) -> OAuthBearer:
    """The login by a function, which gets the options of the login module as its arguments."""
    for name in _OAUTH:
        if properties.get(name) is not None:
            raise properties.error(name, f"it has no meaning with {_PROVIDER}")
    try:
        login = OAuthBearer(token=provider)
    except SecurityOptionError as error:
        raise properties.error(_PROVIDER, str(error)) from None
    return replace(
        login,
        token_arguments=tuple(sorted(options.items())),
        extensions=tuple(sorted(extensions.items())),
    )


def _hint(prefix: str, name: str) -> str:
    import difflib  # for an error only

    near = difflib.get_close_matches(name, _KNOWN, n=1)
    return f"; is '{prefix}{near[0]}' meant?" if near else ""
