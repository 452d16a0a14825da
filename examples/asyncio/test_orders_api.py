"""Tests of the API, with pytest-asyncio and a broker of their own (`drumlin_broker`)."""

import asyncio

import httpx
import orders_api
import pytest
import pytest_asyncio

from drumlin import aio


@pytest_asyncio.fixture
async def api(drumlin_broker, monkeypatch):
    monkeypatch.setenv("DRUMLIN_BOOTSTRAP", drumlin_broker.bootstrap)
    transport = httpx.ASGITransport(orders_api.app)
    async with (
        orders_api.app.router.lifespan_context(orders_api.app),
        httpx.AsyncClient(transport=transport, base_url="http://orders") as client,
    ):
        yield client


@pytest.mark.asyncio
async def test_orders(api):
    posts = [
        api.post("/orders", json={"customer": f"c{each % 2}", "item": "tea", "quantity": each})
        for each in range(10)
    ]
    answers = await asyncio.gather(*posts)
    assert {each.status_code for each in answers} == {201}
    found = (await api.get("/orders", params={"customer": "c1"})).json()
    assert sorted(each["quantity"] for each in found) == [1, 3, 5, 7, 9]


@pytest.mark.asyncio
async def test_a_consumer_sees_them(api, drumlin_broker):
    async with aio.connect(drumlin_broker.bootstrap) as client:
        ends = await client.offsets(orders_api.TOPIC)
        places = [(orders_api.TOPIC, each) for each in ends]
        async with client.consumer(assign=places, start="latest", decode="json") as consumer:
            for place in places:
                await consumer.position(*place)
            await api.post("/orders", json={"customer": "c1", "item": "milk"})
            async with asyncio.timeout(30):
                batch = await anext(consumer)
    assert batch["value"].to_pylist() == [{"customer": "c1", "item": "milk", "quantity": 1}]
