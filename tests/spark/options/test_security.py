"""Reading from a secured Kafka with the options that Spark users have, and what of them shows."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql import DataFrame, SparkSession

from drumlin.peer.security.settings import SecurityOptionError
from drumlin.security import Plain, Security, Tls
from drumlin.spark.options.options import SourceOptions
from rig.data.secured_listeners import AUDIENCE, ISSUER, PASSWORD, SCRAM_PASSWORD
from rig.servers.certificates import Certificates
from rig.servers.secured_kafka import SecuredKafka
from security.test_tokens import Endpoint

MODULES = "org.apache.kafka.common.security"
QUOTED = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
PLAIN = f'{MODULES}.plain.PlainLoginModule required username="alice" password="{QUOTED}";'
SCRAM = f"{MODULES}.scram.ScramLoginModule required username=alice password='{SCRAM_PASSWORD}';"
LOGINS = {
    "PLAIN": PLAIN,
    "SCRAM-SHA-512": SCRAM,
}


def secured(kafka: SecuredKafka, certificates: Certificates, mechanism: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": kafka.addresses["tlslogin"],
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": mechanism,
        "kafka.sasl.jaas.config": LOGINS[mechanism],
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": certificates.text("ca.crt"),
        "startingOffsets": "earliest",
    }


def frame(spark: SparkSession, options: dict[str, str], topic: str) -> DataFrame:
    return spark.read.format("drumlin").options(**options).option("subscribe", topic).load()


@pytest.mark.deep
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.parametrize(
    "mechanism", ["PLAIN", pytest.param("SCRAM-SHA-512", marks=pytest.mark.deep)]
)
def test_a_secured_listener_is_read(
    spark: SparkSession, secured_kafka: SecuredKafka, certificates: Certificates, mechanism: str
) -> None:
    options = secured(secured_kafka, certificates, mechanism)
    read = frame(spark, options, "open")
    assert [bytes(row.value) for row in read.limit(2).collect()] == [b"one", b"two"]
    plans = read._jdf.queryExecution().toString()
    assert "alice" not in plans
    assert "-----BEGIN" not in plans


@pytest.mark.deep
@pytest.mark.spark
@pytest.mark.kafka
def test_tokens_that_a_provider_has_signed(
    spark: SparkSession, secured_kafka: SecuredKafka
) -> None:
    def options(audience: str, endpoint: Endpoint) -> dict[str, str]:
        token = secured_kafka.signer.token("alice", aud=audience, iss=ISSUER)
        endpoint.answers = [(200, {"access_token": token, "expires_in": 3600})]
        return {
            "kafka.bootstrap.servers": secured_kafka.addresses["signed"],
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.sasl.oauthbearer.token.endpoint.url": endpoint.url,
            "kafka.sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required "
            'clientId="spark" clientSecret="hunter2" scope="kafka";',
            "startingOffsets": "earliest",
        }

    with Endpoint() as endpoint:
        read = frame(spark, options(AUDIENCE, endpoint), "open").limit(2)
        assert [bytes(row.value) for row in read.collect()] == [b"one", b"two"]
    with Endpoint() as endpoint:
        wrong = frame(spark, options("shop", endpoint), "open")
        refused = "the token .audience 'shop', .* cannot log in with OAUTHBEARER"
        with pytest.raises(Exception, match=refused) as caught:
            wrong.count()
    assert "hunter2" not in str(caught.value)


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.deep
def test_what_is_refused_is_a_sentence_and_shows_no_password(
    spark: SparkSession, secured_kafka: SecuredKafka, certificates: Certificates
) -> None:
    options = secured(secured_kafka, certificates, "PLAIN")
    for topic, changed, why in (
        ("open", {"kafka.sasl.jaas.config": PLAIN.replace("alice", "bob")}, "user 'bob' cannot"),
        ("open", {"kafka.security.protocol": "SSL"}, "'kafka.sasl.jaas.config'"),
        ("open", {"kafka.ssl.truststore.password": "x"}, "'kafka.ssl.truststore.password'"),
        ("hidden", {}, "topic 'hidden': this user has no right to it"),
        ("locked", {}, "topic 'locked' partition 0: this user has no right to it"),
    ):
        with pytest.raises(Exception, match=why) as caught:
            frame(spark, options | changed, topic).count()
        for secret in (PASSWORD, QUOTED, PLAIN):
            assert secret not in str(caught.value)


def test_options_of_security_come_to_tasks_and_do_not_show() -> None:
    options = SourceOptions.parse(
        {
            "kafka.bootstrap.servers": "a:1",
            "subscribe": "t",
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": PLAIN,
        }
    )
    assert dict(options.client_options)["security"] == Security(Tls(), Plain("alice", PASSWORD))
    assert PASSWORD not in repr(options)
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kafka.security.protocol", "TLS"),
        ("kafka.ssl.truststore.location", "/ca.pem"),
        ("kafka.sasl.mechanism", "GSSAPI"),
        ("kafka.ssl.trustore.location", "/ca.pem"),
    ],
)
def test_nothing_is_sent_in_the_clear_that_was_to_be_secured(name: str, value: str) -> None:
    with pytest.raises(SecurityOptionError, match=f"option '{name}'"):
        SourceOptions.parse({"kafka.bootstrap.servers": "a:1", "subscribe": "t", name: value})
