"""A queue of kombu's, which is Celery's transport: put, taken in order and acknowledged.

kombu_queue.py HOST:PORT NAME MESSAGES
"""

import sys

from kombu import Connection

from login import librdkafkas

address, name, messages = sys.argv[1:]
options = {"kafka_topic_config": {"num_partitions": 1}, "kafka_common_config": librdkafkas()}
with Connection(f"confluentkafka://{address}/", transport_options=options) as connection:
    queue = connection.SimpleQueue(name)
    for number in range(int(messages)):
        queue.put({"number": number})
    taken = []
    while len(taken) < int(messages):
        try:
            message = queue.get(timeout=5)
        except queue.Empty:
            continue
        taken.append(message.payload["number"])
        message.ack()
    queue.close()
print("in order", taken == [*range(int(messages))])
