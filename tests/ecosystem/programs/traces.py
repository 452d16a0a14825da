"""Traces of OpenTelemetry's: what is sent in one span is read with its context.

traces.py BOOTSTRAP NAME
"""

import sys

import confluent_kafka
import kafka
from opentelemetry.instrumentation.confluent_kafka import ConfluentKafkaInstrumentor
from opentelemetry.instrumentation.kafka import KafkaInstrumentor
from opentelemetry.sdk.trace import TracerProvider

import login

address, name = sys.argv[1:]
provider = TracerProvider()
KafkaInstrumentor().instrument(tracer_provider=provider)
secured = login.told and {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "SCRAM-SHA-512",
    "sasl_plain_username": login.told["user"],
    "sasl_plain_password": login.told["password"],
    "ssl_cafile": login.told["ca"],
}
of_python = {"bootstrap_servers": address, **(secured or {})}
kafka.KafkaProducer(**of_python).send(f"{name}-python", b"v").get(60)
reader = kafka.KafkaConsumer(f"{name}-python", **of_python, auto_offset_reset="earliest")
print("kafka-python", "traceparent" in dict(next(iter(reader)).headers))
reader.close()

instrumentor = ConfluentKafkaInstrumentor()
common = {"bootstrap.servers": address, **login.librdkafkas()}
producer = instrumentor.instrument_producer(
    confluent_kafka.Producer(common), tracer_provider=provider
)
producer.produce(f"{name}-confluent", value=b"v")
producer.flush(60)
told = common | {"group.id": name, "auto.offset.reset": "earliest"}
consumer = instrumentor.instrument_consumer(
    confluent_kafka.Consumer(told), tracer_provider=provider
)
consumer.subscribe([f"{name}-confluent"])
message = None
while message is None or message.error():
    message = consumer.poll(1)
print("confluent-kafka", "traceparent" in dict(message.headers()))
consumer.close()
