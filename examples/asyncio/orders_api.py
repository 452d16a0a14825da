"""An API of orders, with FastAPI: each POST is a record that the cluster has acknowledged.

DRUMLIN_BOOTSTRAP=127.0.0.1:9092 fastapi run orders_api.py
"""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel

from drumlin import BufferFull, DeliveryFailed, aio

TOPIC = "orders"


class Order(BaseModel):
    customer: str
    item: str
    quantity: int = 1


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """One client and one writer for all requests, from the application's start to its end."""
    bootstrap = os.environ.get("DRUMLIN_BOOTSTRAP", "127.0.0.1:9092")
    async with aio.connect(bootstrap) as client:
        await client.create_topic(TOPIC, 3, if_not_exists=True)
        async with client.writer(TOPIC, linger_ms=2) as writer:
            app.state.client, app.state.writer = client, writer
            yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=201)
async def place(order: Order, request: Request) -> dict[str, Any]:
    """Orders that arrive together share a batch. One that its client leaves is written, too."""
    try:
        delivery = await request.app.state.writer.send(order.model_dump_json(), key=order.customer)
        placed = await delivery
    except (BufferFull, DeliveryFailed) as error:
        raise HTTPException(503, str(error)) from error
    return {"partition": placed.partition, "offset": placed.offset}


@app.get("/orders")
async def orders(request: Request, customer: str) -> list[dict[str, Any]]:
    """All orders of a customer, in their order."""
    return [
        json.loads(record.value)
        async for records in request.app.state.client.read_records(TOPIC)
        for record in records
        if record.key == customer.encode()
    ]
