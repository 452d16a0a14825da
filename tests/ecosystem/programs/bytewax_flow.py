"""Counts records by key, with bytewax: its state is in a recovery store.

    BROKER=BOOTSTRAP NAME=NAME python -m bytewax.run -r STORE bytewax_flow

Topics NAME-in and NAME-out are there. Ends with the records that are there.
"""

import os

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSinkMessage
from bytewax.connectors.kafka import operators as kafka
from bytewax.dataflow import Dataflow

from login import librdkafkas

broker, name = os.environ["BROKER"], os.environ["NAME"]


def count(state, _):
    state = (state or 0) + 1
    return state, state


flow = Dataflow("count")
login = {"add_config": librdkafkas()}
records = kafka.input("in", flow, brokers=[broker], topics=[f"{name}-in"], tail=False, **login)
keyed = op.key_on("key", records.oks, lambda message: message.key.decode())
counted = op.stateful_map("count", keyed, count)
told = op.map("tell", counted, lambda each: KafkaSinkMessage(each[0].encode(), b"%d" % each[1]))
kafka.output("out", told, brokers=[broker], topic=f"{name}-out", **login)
