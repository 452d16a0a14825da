"""A member of a group that keeps its offsets where it is told, and notes what it has processed.

`python moving_member.py ADDRESS TOPIC GROUP NOTES OPTIONS`: OPTIONS are those of the consumer, in
JSON. NOTES gets a line "partition offset" for each record. SIGTERM ends it in good order.
"""

from __future__ import annotations

import json
import os
import signal
import sys

import drumlin


def main(address: str, topic: str, group: str, notes: str, options: str) -> None:
    ends = False

    def end(_number: int, _frame: object) -> None:
        nonlocal ends
        ends = True

    signal.signal(signal.SIGTERM, end)
    descriptor = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with (
        drumlin.connect(address) as client,
        client.consumer(topic, group=group, **json.loads(options)) as consumer,
    ):
        while not ends:
            batch = consumer.poll(100)
            if batch is not None:
                columns = batch.column("partition").to_pylist(), batch.column("offset").to_pylist()
                rows = zip(*columns, strict=True)
                # One write: all of the batch is noted, or nothing.
                os.write(descriptor, "".join(f"{p} {o}\n" for p, o in rows).encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
