"""Counts words, with quixstreams: its state is in a changelog topic.

    quixstreams_app.py BOOTSTRAP NAME GUARANTEE STATE_DIR

Topics NAME-in and NAME-out are there. Runs until it is killed.
"""

import sys

from quixstreams import Application
from quixstreams.kafka import ConnectionConfig

from login import librdkafkas

address, name, guarantee, state_dir = sys.argv[1:]
app = Application(
    broker_address=ConnectionConfig.from_librdkafka_dict(
        {"bootstrap.servers": address, **librdkafkas()}
    ),
    consumer_group=name,
    auto_offset_reset="earliest",
    state_dir=state_dir,
    processing_guarantee=guarantee,
    commit_interval=0.5,
    loglevel="WARNING",
    consumer_extra_config={"session.timeout.ms": 10_000},
    producer_extra_config={"transaction.timeout.ms": 10_000},
)
words = app.topic(f"{name}-in", value_deserializer="json", key_deserializer="str")
counted = app.topic(f"{name}-out", value_serializer="json")


def count(value, state):
    state.set("n", state.get("n", 0) + 1)
    return {"word": value["word"], "count": state.get("n")}


app.dataframe(words).apply(count, stateful=True).to_topic(counted)
app.run()
