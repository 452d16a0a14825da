"""Handles, republishes and reads in batches, with FastStream, by one of its two clients.

    faststream_app.py BOOTSTRAP NAME kafka|confluent RECORDS

Topics NAME and NAME-out are there. Prints how many were handled, and the sum of what came out.
"""

import asyncio
import importlib
import sys

from faststream import AckPolicy
from faststream.security import SASLScram512

import login

address, name, client, records = sys.argv[1:]
settings = {}
if login.told:
    who = {"username": login.told["user"], "password": login.told["password"]}
    if client == "confluent":
        settings["config"] = {"ssl.ca.location": login.told["ca"]}
        settings["security"] = SASLScram512(**who, use_ssl=True)
    else:
        settings["security"] = SASLScram512(**who, ssl_context=login.tls())
module = importlib.import_module(f"faststream.{client}")
broker = module.KafkaBroker(address, logger=None, **settings)
handled, out, all_is_out = set(), [], asyncio.Event()
earliest = {"auto_offset_reset": "earliest"}


@broker.subscriber(name, group_id=name, ack_policy=AckPolicy.ACK, **earliest)
@broker.publisher(f"{name}-out")
async def handle(message: dict) -> dict:
    handled.add(message["number"])
    return {"number": message["number"] * 2}


@broker.subscriber(f"{name}-out", group_id=f"{name}-out", batch=True, **earliest)
async def collect(messages: list[dict]) -> None:
    out.extend(message["number"] for message in messages)
    if len(out) >= int(records):
        all_is_out.set()


async def main() -> None:
    async with broker:
        await broker.start()
        for number in range(int(records)):
            told = {"number": number}
            await broker.publish(told, name, key=b"%d" % number, headers={"h": "x"})
        await all_is_out.wait()
    print("handled", len(handled), "out", len(out), "sum", sum(out))


asyncio.run(main())
