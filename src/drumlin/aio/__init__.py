"""The client for asyncio: the calls of `drumlin.connect`'s, awaited in the caller's own event loop.

    async with drumlin.aio.connect("127.0.0.1:9092") as client:
        await client.append({"value": ["42.17"]}, "trades")
        async with client.consumer(["trades"], group="reports") as consumer:
            async for batch in consumer:
                ...

The core is the synchronous client's, and so are names, parameters, results and errors.
"""

from drumlin.aio.client import Client as Client
from drumlin.aio.client import connect as connect
from drumlin.aio.consumer import Consumer as Consumer
from drumlin.aio.transaction import Transaction as Transaction
from drumlin.aio.writer import Writer as Writer

__all__ = ["Client", "Consumer", "Transaction", "Writer", "connect"]
