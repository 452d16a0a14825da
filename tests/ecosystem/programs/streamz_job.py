"""Reads a topic in batches, with streamz, and prints how many records came, and how many differ.

streamz_job.py BOOTSTRAP NAME RECORDS

The topic NAME is there. Ends when there are as many as that.
"""

import sys
import time

from streamz import Stream

from login import librdkafkas

address, name, records = sys.argv[1:]
settings = {"bootstrap.servers": address, "group.id": name, "auto.offset.reset": "earliest"}
out = []
batches = Stream.from_kafka_batched(
    name, {**settings, **librdkafkas()}, poll_interval="200ms", start=False, asynchronous=False
)
batches.flatten().sink(out.append)
batches.start()
while len(out) < int(records):
    time.sleep(0.1)
batches.stop()
print("read", len(out), "distinct", len(set(out)))
