"""Kafka's properties: what they come to, and that no wrong one makes a connection less secure."""

from __future__ import annotations

import pickle
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import drumlin
from drumlin.security import (
    OAuthBearer,
    Plain,
    Scram,
    Security,
    SecurityOptionError,
    Tls,
    read_properties,
)
from records.strategies import QUICK

PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nHUNTER2\n-----END PRIVATE KEY-----\n"
CREDENTIALS = 'username="alice" password="hunter2"'
PLAIN = f"org.apache.kafka.common.security.plain.PlainLoginModule required {CREDENTIALS};"
SCRAM = f"org.apache.kafka.common.security.scram.ScramLoginModule required {CREDENTIALS};"
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required {};"
ENDPOINT = {"sasl.oauthbearer.token.endpoint.url": "https://issuer.example/token"}
PROVIDER = {"sasl.oauthbearer.token.provider": "a.b:C.d"}
VALUES = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "PEM", "https", "TLSv1.2", "/x.pem", "", " ")
SSL = {"security.protocol": "SSL"}


def sasl(mechanism: str, jaas: str = "", **others: str) -> dict[str, str]:
    given = {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism}
    return given | ({"sasl.jaas.config": jaas} if jaas else {}) | others


CLIENT = OAuthBearer(
    token_endpoint="https://issuer.example/token", client_id="i", client_secret="s"
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, Security()),
        ({"security.protocol": "plaintext", "group.id": "g"}, Security()),
        (SSL, Security(Tls())),
        (SSL | {"ssl.endpoint.identification.algorithm": ""}, Security(Tls(check_host_name=False))),
        (SSL | {"ssl.endpoint.identification.algorithm": "HTTPS"}, Security(Tls())),
        (SSL | {"ssl.protocol": "TLSv1.2"}, Security(Tls(versions=("TLSv1.2",)))),
        (SSL | {"ssl.enabled.protocols": "TLSv1.3"}, Security(Tls(versions=("TLSv1.3",)))),
        (
            SSL | {"ssl.truststore.type": "PEM", "ssl.truststore.location": " /ca.pem "},
            Security(Tls(ca="/ca.pem")),
        ),
        (
            SSL
            | {
                "ssl.truststore.certificates": PEM,
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": PEM,
                "ssl.keystore.key": KEY,
                "ssl.key.password": "hunter2",
            },
            Security(Tls(ca=PEM, certificate=PEM, key=KEY, key_password="hunter2")),
        ),
        (
            SSL
            | {
                "ssl.truststore.location": "/trust.jks",
                "ssl.truststore.password": "hunter2",
                "ssl.keystore.type": "pkcs12",
                "ssl.keystore.location": "/keys",
                "ssl.keystore.password": "hunter3",
                "ssl.key.password": "hunter3",
            },
            Security(
                Tls(
                    ca="/trust.jks",
                    ca_password="hunter2",
                    certificate="/keys",
                    key_password="hunter3",
                )
            ),
        ),
        (sasl("PLAIN", PLAIN), Security(Tls(), Plain("alice", "hunter2"))),
        (sasl("SCRAM-SHA-256", SCRAM), Security(Tls(), Scram("alice", "hunter2", "SCRAM-SHA-256"))),
        (
            sasl("SCRAM-SHA-512", SCRAM) | {"security.protocol": "SASL_PLAINTEXT"},
            Security(None, Scram("alice", "hunter2", "SCRAM-SHA-512")),
        ),
        (
            sasl("OAUTHBEARER", BEARER.format("clientId='i' clientSecret='s'")) | ENDPOINT,
            Security(Tls(), CLIENT),
        ),
        (
            sasl("OAUTHBEARER")
            | ENDPOINT
            | {
                "sasl.oauthbearer.client.credentials.client.id": "i",
                "sasl.oauthbearer.client.credentials.client.secret": "s",
                "sasl.login.refresh.window.factor": "0.7",
            },
            Security(Tls(), CLIENT),
        ),
        (
            sasl("OAUTHBEARER", BEARER.format("region='x' scope='s'")) | PROVIDER,
            Security(
                Tls(), OAuthBearer("a.b:C.d", token_arguments=(("region", "x"), ("scope", "s")))
            ),
        ),
        (sasl("OAUTHBEARER") | PROVIDER, Security(Tls(), OAuthBearer("a.b:C.d"))),
    ],
)
def test_properties_come_to_settings(given: dict[str, str], expected: Security) -> None:
    assert Security.of(given) == expected
    assert (
        Security.of({f"kafka.{name}": value for name, value in given.items()}, "kafka.") == expected
    )


TRUST = "ssl.truststore.location"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"security.protocol": "TLS"}, "'security.protocol': expected one of"),
        ({TRUST: "/ca.pem"}, f"'{TRUST}': .*security.protocol is PLAINTEXT"),
        ({"sasl.mechanism": "PLAIN"}, "'sasl.mechanism': .*security.protocol is PLAINTEXT"),
        (SSL | {"sasl.jaas.config": PLAIN}, "'sasl.jaas.config': .*security.protocol is SSL"),
        (
            sasl("PLAIN", PLAIN) | {"security.protocol": "SASL_PLAINTEXT", TRUST: "/ca.pem"},
            f"'{TRUST}': .*SASL_PLAINTEXT",
        ),
        (
            SSL | {"ssl.trustore.location": "/ca.pem"},
            "'ssl.trustore.location': .*ssl.truststore.loc",
        ),
        (SSL | {"ssl.cipher.suites": "hunter2"}, "'ssl.cipher.suites'"),
        (SSL | {"ssl.engine.factory.class": "a.B"}, "'ssl.engine.factory.class': Java"),
        (SSL | {"ssl.protocol": "TLSv1.1"}, "'ssl.protocol'"),
        (SSL | {"ssl.enabled.protocols": "TLSv1.2,SSLv3"}, "'ssl.enabled.protocols'"),
        (SSL | {"ssl.endpoint.identification.algorithm": "none"}, "'ssl.endpoint.identification"),
        (SSL | {"ssl.truststore.certificates": "hunter2"}, "'ssl.truststore.certificates': .*PEM"),
        (SSL | {"ssl.truststore.certificates": PEM, TRUST: "/ca.pem"}, "only one"),
        (
            SSL | {TRUST: __file__, "ssl.truststore.password": "hunter2"},
            "test_properties.py is no PKCS12 store, and only such has a password",
        ),
        (
            SSL | {TRUST: "/x", "ssl.truststore.type": "PEM", "ssl.truststore.password": "hunter2"},
            "'ssl.truststore.password': a PEM store has no password",
        ),
        (
            SSL | {"ssl.truststore.certificates": PEM, "ssl.truststore.password": "hunter2"},
            "'ssl.truststore.password': there is no store",
        ),
        (
            SSL | {"ssl.truststore.certificates": PEM, "ssl.truststore.type": "PKCS12"},
            "'ssl.truststore.type': .*location is missing",
        ),
        (SSL | {"ssl.keystore.password": "hunter2"}, "'ssl.keystore.password': there is no store"),
        (
            SSL
            | {
                "ssl.keystore.location": "/k.p12",
                "ssl.keystore.password": "hunter2",
                "ssl.key.password": "another",
            },
            "'ssl.key.password': a store and its key have one password",
        ),
        (SSL | {"ssl.keystore.key": KEY}, "certificate.chain is missing"),
        (
            SSL | {"ssl.keystore.certificate.chain": PEM, "ssl.keystore.key": "HUNTER2"},
            "'ssl.keystore.key': expected PEM",
        ),
        ({"security_protocol": "SSL"}, "'security_protocol': .*is 'security.protocol' meant"),
        ({"kafka.security.protocol": "SSL"}, "'kafka.security.protocol': .*'security.protocol'"),
        ({" Security.Protocol": "SSL"}, "' Security.Protocol': .*'security.protocol'"),
        ({"sasl_plain_password": "hunter2"}, "'sasl_plain_password': there is no such option"),
        ({"security.protocol": b"SSL"}, "'security.protocol': expected a string"),
        (sasl("PLAIN", PLAIN.replace("hunter2", "hunter2\udc80")), "'sasl.jaas.config': password"),
        (SSL | {"ssl.keystore.certificate.chain": PEM}, "ssl.keystore.key is missing"),
        (SSL | {"ssl.key.password": "hunter2"}, "'ssl.key.password': there is no key"),
        (SSL | {"ssl.keystore.type": "BCFKS"}, "'ssl.keystore.type': there are PEM and PKCS12"),
        (sasl("GSSAPI", PLAIN), "'sasl.mechanism': GSSAPI"),
        ({"security.protocol": "SASL_SSL"}, "'sasl.mechanism': GSSAPI"),
        ({"sasl.kerberos.service.name": "kafka"}, "'sasl.kerberos.service.name': GSSAPI"),
        (sasl("SCRAM-SHA-1", SCRAM), "'sasl.mechanism': expected one of"),
        (
            sasl("AWS_MSK_IAM", "software.amazon.msk.auth.iam.IAMLoginModule required;")
            | {"sasl.client.callback.handler.class": "a.Iam"},
            "'sasl.mechanism': .*takes OAUTHBEARER as well, with sasl.oauthbearer.token.provider=",
        ),
        (sasl("PLAIN"), "'sasl.jaas.config': it is missing"),
        (sasl("PLAIN", SCRAM), "'sasl.jaas.config': ScramLoginModule does not go with PLAIN"),
        (sasl("PLAIN", PLAIN[:-1]), "'sasl.jaas.config': .*semicolon"),
        (sasl("PLAIN", PLAIN.replace("username", "user")), "'sasl.jaas.config': .*'user'"),
        (sasl("PLAIN", PLAIN.replace('username="alice"', "")), "lacks username"),
        (sasl("SCRAM-SHA-256", SCRAM[:-1] + " tokenauth=true;"), "'tokenauth'"),
        (sasl("PLAIN", PLAIN) | ENDPOINT, "token.endpoint.url': .*sasl.mechanism is PLAIN"),
        (sasl("OAUTHBEARER", BEARER.format("clientId=i clientSecret=s")), "url': it is missing"),
        (sasl("OAUTHBEARER", BEARER.format("clientId=i")) | ENDPOINT, "client secret"),
        (
            sasl("OAUTHBEARER", BEARER.format("clientId=i clientSecret=hunter2"))
            | {"sasl.oauthbearer.token.endpoint.url": "http://issuer.example/"},
            "token endpoint: .*https only",
        ),
        (
            sasl("OAUTHBEARER", BEARER.format("clientId=i clientSecret=s"))
            | {"sasl.oauthbearer.token.endpoint.url": "https://i:hunter2@issuer.example/"},
            "has a user in it",
        ),
        (
            sasl("PLAIN", PLAIN) | {"sasl.client.callback.handler.class": "a.B"},
            "'sasl.client.callback.handler.class': Java",
        ),
        (
            sasl("OAUTHBEARER") | PROVIDER | ENDPOINT,
            "url': it has no meaning with .*token.provider",
        ),
        (sasl("PLAIN", PLAIN) | PROVIDER, "token.provider': .*sasl.mechanism is PLAIN"),
        *(
            (sasl("OAUTHBEARER") | dict.fromkeys(PROVIDER, name), "provider': .*'module:function'")
            for name in ("hunter2", "a.b", "a:", "hunter2:x y", "eyJ.eyJ.hunter2")
        ),
        (
            sasl("OAUTHBEARER") | {"sasl.oauthbearer.token.provider": lambda: "hunter2"},
            "provider': expected a string: 'module:function', which is imported where",
        ),
        (
            sasl("OAUTHBEARER", BEARER.format("ssl.protocol=hunter2")) | PROVIDER,
            "'sasl.jaas.config': .*no function has an argument 'ssl.protocol'",
        ),
        (
            sasl("OAUTHBEARER") | ENDPOINT | {"sasl.login.callback.handler.class": "a.Iam"},
            "'sasl.login.callback.handler.class'",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_name_and_shows_nothing(
    given: dict[str, str], why: str
) -> None:
    with pytest.raises(SecurityOptionError, match=why) as caught:
        # Some are found when all is there: before anything is sent, in any case.
        drumlin.connect("127.0.0.1:1", security=given)
    assert "hunter2" not in str(caught.value).lower()


@pytest.mark.parametrize("name", ["security.protocol", "kafka.security_protocol"])
def test_an_option_without_its_prefix_makes_no_plain_connection(name: str) -> None:
    with pytest.raises(SecurityOptionError, match=f"'{name}': .*'kafka.security.protocol' meant"):
        Security.of({name: "SSL", "subscribe": "t"}, "kafka.")


@pytest.mark.parametrize(
    "key", ["HUNTER2" * 20, "----BEGIN PRIVATE KEY-----\nHUNTER2\n-----END PRIVATE KEY-----"]
)
@pytest.mark.parametrize("name", ["key", "certificate"])
def test_a_key_without_its_first_line_is_not_shown_as_the_path_of_a_file(
    name: str, key: str
) -> None:
    given = {"certificate": PEM, name: key}
    tls = Tls(**given)  # type: ignore[arg-type]
    assert "HUNTER2" not in repr(tls)
    with pytest.raises(SecurityOptionError) as caught:
        drumlin.connect("127.0.0.1:1", security=Security(tls))
    assert "HUNTER2" not in str(caught.value)


def test_what_is_no_text_is_refused_before_a_login_fails_with_it() -> None:
    """The error of an encoder has in it what was to be encoded."""
    broken = "hunter2\udc80"
    for settings in (
        lambda: Plain("alice", broken),
        lambda: Plain(broken, "hunter2"),
        lambda: Scram("alice", broken),
        lambda: Scram(broken, "hunter2"),
        lambda: OAuthBearer(token_endpoint="https://a/", client_id="i", client_secret=broken),
        lambda: OAuthBearer(token_endpoint="https://a/", client_id=broken, client_secret="s"),
        lambda: OAuthBearer(lambda: "", extensions=(("a", broken),)),
        lambda: Tls(certificate=PEM, key_password=broken),
    ):
        with pytest.raises(SecurityOptionError) as caught:
            settings()
        assert "hunter2" not in repr(caught.value)
        assert caught.value.__context__ is None


@pytest.mark.parametrize("name", ["a b.jks", "store"])
@pytest.mark.parametrize("kind", [{}, {"type": "JKS"}, {"type": "PKCS12", "password": "hunter2"}])
@pytest.mark.parametrize("store", ["truststore", "keystore"])
def test_a_java_store_is_refused_with_the_command_that_converts_it(
    tmp_path: Path, name: str, kind: dict[str, str], store: str
) -> None:
    path = tmp_path / name
    path.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    said = {"location": str(path)} | kind
    given = SSL | {f"ssl.{store}.{key}": text for key, text in said.items()}
    with pytest.raises(SecurityOptionError, match="is a JKS store") as caught:
        drumlin.connect("127.0.0.1:1", security=given)
    source, converted = (shlex.quote(str(each)) for each in (path, path.with_suffix(".p12")))
    assert str(caught.value).endswith(
        f": keytool -importkeystore -srckeystore {source} -destkeystore {converted} "
        "-deststoretype PKCS12"
    )
    assert "hunter2" not in str(caught.value)


def test_nothing_secret_is_ever_shown() -> None:
    given = [
        sasl("PLAIN", PLAIN),
        sasl("SCRAM-SHA-512", SCRAM),
        sasl("OAUTHBEARER", BEARER.format("clientId=i clientSecret=hunter2")) | ENDPOINT,
        SSL | {"ssl.keystore.certificate.chain": PEM, "ssl.keystore.key": KEY},
        SSL | {"ssl.keystore.location": "/k.pem", "ssl.key.password": "hunter2"},
        SSL | {TRUST: "/k.p12", "ssl.truststore.password": "hunter2"},
    ]
    for each in map(Security.of, given):
        for text in (repr(each), str(each), f"{each}", repr([each])):
            assert "hunter2" not in text.lower()
            assert "***" in text
        again = pickle.loads(pickle.dumps(each))
        assert again == each, "tasks on other machines get it whole"
        assert hash(again) == hash(each)


@QUICK
@given(
    st.dictionaries(
        st.sampled_from(
            [
                "security.protocol",
                "sasl.mechanism",
                "sasl.jaas.config",
                "ssl.truststore.location",
                "ssl.truststore.type",
                "ssl.keystore.key",
                "ssl.keystore.certificate.chain",
                "ssl.endpoint.identification.algorithm",
                "ssl.protocol",
                *ENDPOINT,
            ]
        ),
        st.sampled_from(
            ["PLAINTEXT", "SSL", "SASL_SSL", "SASL_PLAINTEXT", *VALUES, PLAIN, SCRAM, PEM, KEY]
        ),
    )
)
def test_a_connection_is_as_secure_as_it_is_said_or_there_is_none(given: dict[str, str]) -> None:
    try:
        security = Security.of(given)
    except SecurityOptionError:
        return
    protocol = (given.get("security.protocol", "").strip() or "PLAINTEXT").upper()
    assert security.protocol == protocol
    if security.tls is not None:
        unchecked = not given.get("ssl.endpoint.identification.algorithm", "https").strip()
        assert security.tls.check_host_name != unchecked


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\n\nssl.nonsense=secret", "option 'ssl.nonsense': there is no such option here"),
        (b"security.protocol=SECRET", "option 'security.protocol': expected one of PLAINTEXT"),
        (b"#\nsasl.jaas.config=secret\\uXY", "line 2: "),
        (b"#\n#\n\x00secret\xff", "line 3: "),
    ],
)
def test_a_file_that_cannot_be_is_named_with_the_place(
    tmp_path: Path, content: bytes, said: str
) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes(content)
    with pytest.raises(SecurityOptionError) as refused:
        read_properties(path)
    assert str(refused.value).startswith(f"{path}: {said}")
    assert "secret" not in str(refused.value).lower()


def test_a_byte_order_mark_makes_no_connection_less_secure(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes(b"\xef\xbb\xbfsecurity.protocol=SSL\nclient.id=left-out\n")
    assert read_properties(path) == {"security.protocol": "SSL"}
