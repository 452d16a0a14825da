"""Another broker of the cluster, scripted, beside one in the test's process."""

from __future__ import annotations

from drumlin.broker.start.broker import Broker
from drumlin.metadata.image import BrokerState, Endpoint
from drumlin.metadata.store.changes import BrokersChanged
from rig.brokers.scripted_broker import ScriptedBroker

NODE_ID = 2


def join(broker: Broker, other: ScriptedBroker, epoch: int = 1) -> None:
    """The other one is in the cluster from now on, as a process with this broker epoch."""
    endpoints = (Endpoint("PLAINTEXT", "127.0.0.1", other.port),)
    broker.metadata.image.put_broker(BrokerState(NODE_ID, None, endpoints, epoch))
    broker.peers.on_change(BrokersChanged())


def leave(broker: Broker) -> None:
    broker.metadata.image.remove_broker(NODE_ID)
    broker.peers.on_change(BrokersChanged())
