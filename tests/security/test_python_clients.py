"""Python's other clients, unmodified, over TLS with each login and with client certificates.

Each writes a record to "open", and reads it; with a login it commits that for the group "readers".
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import uuid4

import aiokafka
import aiokafka.abc
import aiokafka.helpers
import confluent_kafka
import kafka
import kafka.net.sasl.oauth
import pytest

from rig.data.secured_listeners import AUDIENCE, ISSUER, PASSWORD, SCRAM_PASSWORD, Secured
from rig.servers.certificates import Certificates
from security.test_tokens import Endpoint, jwt

pytestmark = pytest.mark.kafka

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
CERTIFICATE = "a certificate"
TIMEOUT_S = 30.0


class Login(NamedTuple):
    """How a client gets in; without a mechanism its certificate says who it is."""

    address: str
    ca: str
    mechanism: str = ""
    user: str = "alice"
    certificate: str = ""
    key: str = ""

    @property
    def password(self) -> str:
        if self.user != "alice":
            return "wrong"
        return SCRAM_PASSWORD if self.mechanism.startswith("SCRAM") else PASSWORD

    def token(self) -> str:
        return jwt(3600, subject=self.user)


class Went(NamedTuple):
    """What the client saw, or why it was not let in."""

    topics: set[str]
    value: bytes
    refused: str = ""


Client = Callable[[Login, bytes], Went]


def with_librdkafka(login: Login, value: bytes) -> Went:
    settings: dict[str, Any] = {
        "bootstrap.servers": login.address,
        "security.protocol": "SASL_SSL" if login.mechanism else "SSL",
        "ssl.ca.location": login.ca,
    }
    if not login.mechanism:
        settings |= {"ssl.certificate.location": login.certificate, "ssl.key.location": login.key}
    elif login.mechanism == "OAUTHBEARER":
        settings |= {
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (login.token(), time.time() + 3600),
        }
    else:
        settings |= {
            "sasl.mechanism": login.mechanism,
            "sasl.username": login.user,
            "sasl.password": login.password,
        }
    errors: list[confluent_kafka.KafkaError] = []
    written: list[int] = []

    def is_written(_: object, message: confluent_kafka.Message) -> None:
        written.append(message.offset())

    producer = confluent_kafka.Producer({**settings, "error_cb": errors.append})
    producer.produce("open", value, on_delivery=is_written)
    while not written:
        producer.poll(1.0)
        refusals = [e for e in errors if e.code() == confluent_kafka.KafkaError._AUTHENTICATION]
        if refusals:
            producer.purge()
            return Went(set(), b"", refusals[0].str())
    own = {"group.id": "readers", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer(settings | own)
    place = confluent_kafka.TopicPartition("open", 0, written[0])
    consumer.assign([place])
    message = consumer.poll(TIMEOUT_S)
    while message is not None and message.error():  # of the group, which a certificate may not use
        message = consumer.poll(TIMEOUT_S)
    assert message is not None
    if login.mechanism:
        consumer.commit(message=message, asynchronous=False)
    topics = set(consumer.list_topics(timeout=TIMEOUT_S).topics)
    consumer.close()
    return Went(topics, message.value() or b"")


class AiokafkasTokens(aiokafka.abc.AbstractTokenProvider):
    def __init__(self, login: Login) -> None:
        self._login = login

    async def token(self) -> str:
        return self._login.token()


def with_aiokafka(login: Login, value: bytes) -> Went:
    async def go() -> Went:
        context = aiokafka.helpers.create_ssl_context(
            cafile=login.ca, certfile=login.certificate or None, keyfile=login.key or None
        )
        settings: dict[str, Any] = {"bootstrap_servers": login.address, "ssl_context": context}
        if login.mechanism:
            settings |= {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": login.mechanism,
                "sasl_plain_username": login.user,
                "sasl_plain_password": login.password,
                "sasl_oauth_token_provider": AiokafkasTokens(login),
            }
        else:
            settings |= {"security_protocol": "SSL"}
        producer = aiokafka.AIOKafkaProducer(**settings)
        try:
            await producer.start()
            written = await producer.send_and_wait("open", value)
        except aiokafka.errors.KafkaConnectionError as error:
            return Went(set(), b"", str(error))
        finally:
            await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(
            group_id="readers" if login.mechanism else None, enable_auto_commit=False, **settings
        )
        place = aiokafka.TopicPartition("open", 0)
        async with consumer:
            consumer.assign([place])
            consumer.seek(place, written.offset)
            message = await consumer.getone()
            if login.mechanism:
                await consumer.commit({place: message.offset + 1})
            return Went(await consumer.topics(), message.value)

    async def within() -> Went:
        async with asyncio.timeout(TIMEOUT_S):
            return await go()

    return asyncio.run(within())


class KafkaPythonsTokens(kafka.net.sasl.oauth.AbstractTokenProvider):
    def __init__(self, login: Login) -> None:
        super().__init__()
        self._login = login

    def token(self) -> str:
        return self._login.token()


def with_kafka_python(login: Login, value: bytes) -> Went:
    context = ssl.create_default_context(cafile=login.ca)
    settings: dict[str, Any] = {"bootstrap_servers": login.address, "ssl_context": context}
    if login.mechanism:
        settings |= {"security_protocol": "SASL_SSL", "sasl_mechanism": login.mechanism}
    else:
        settings |= {"security_protocol": "SSL"}
        context.load_cert_chain(login.certificate, login.key)
    if login.mechanism == "OAUTHBEARER":
        settings |= {"sasl_oauth_token_provider": KafkaPythonsTokens(login)}
    elif login.mechanism:
        settings |= {"sasl_plain_username": login.user, "sasl_plain_password": login.password}
    producer = kafka.KafkaProducer(**settings)
    written = producer.send("open", value).get(TIMEOUT_S)
    producer.close()
    group = "readers" if login.mechanism else None
    consumer = kafka.KafkaConsumer(group_id=group, enable_auto_commit=False, **settings)
    place = kafka.TopicPartition("open", 0)
    consumer.assign([place])
    consumer.seek(place, written.offset)
    message = next(consumer)
    if login.mechanism:
        consumer.commit()
    topics = consumer.topics()
    consumer.close(autocommit=False)
    return Went(topics, message.value)


@pytest.fixture(params=[with_librdkafka, with_aiokafka, with_kafka_python])
def client(request: pytest.FixtureRequest) -> Client:
    found: Client = request.param
    return found


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_each_login_over_tls(
    secured: Secured, certificates: Certificates, client: Client, mechanism: str
) -> None:
    value = uuid4().bytes
    login = Login(secured.addresses["tlslogin"], certificates.path("ca.crt"), mechanism)
    # It is alice: "hidden" is not to be seen.
    assert client(login, value) == Went({"locked", "open"}, value)


def test_a_certificate_says_who_it_is(
    secured: Secured, certificates: Certificates, client: Client
) -> None:
    value = uuid4().bytes
    login = Login(
        secured.addresses["mutual"],
        certificates.path("ca.crt"),
        certificate=certificates.path("client.crt"),
        key=certificates.path("client.key"),
    )
    assert client(login, value) == Went({"open"}, value), "it is CN=client, and not alice"


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("client", [with_librdkafka, with_aiokafka])  # kafka-python tries again
def test_nobody_is_told_that_there_is_no_such_user(
    secured: Secured, certificates: Certificates, client: Client, mechanism: str
) -> None:
    login = Login(
        secured.addresses["tlslogin"], certificates.path("ca.crt"), mechanism, user="mallory"
    )
    refused = client(login, b"never").refused
    assert refused
    assert "mallory" not in refused


def test_librdkafka_asks_a_provider_for_its_token(secured: Secured) -> None:
    token = secured.signer.token("alice", aud=AUDIENCE, iss=ISSUER)
    with Endpoint((200, {"access_token": token, "expires_in": 3600})) as endpoint:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": secured.addresses["signed"],
                "group.id": "readers",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "me",
                "sasl.oauthbearer.client.secret": "hunter2",
                "sasl.oauthbearer.token.endpoint.url": endpoint.url,
            }
        )
        assert set(consumer.list_topics(timeout=TIMEOUT_S).topics) == {"locked", "open"}
        consumer.close()
    assert endpoint.asked
