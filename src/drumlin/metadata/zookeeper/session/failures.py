"""The errors that clients get for failures of ZooKeeper. Pure."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from drumlin.metadata.zookeeper.session.session import Conflict
from drumlin.metadata.zookeeper.znodes import layout, own_layout
from drumlin.metadata.zookeeper.znodes.operations import Check, NodeTooLarge
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.zookeeper.connection import ZooKeeperFailure
from drumlin.zookeeper.nodes import UnreadableNode

T = TypeVar("T")

_OF_BROKERS = (f"{layout.BROKERS}/", f"{own_layout.BROKER_EPOCHS}/")


def client_error(error: Exception) -> Exception:
    """The client's error for a failure that the store cannot handle itself."""
    if isinstance(error, Conflict) and isinstance(error.operation, Check):
        return _fenced(error.operation.path) or error
    if isinstance(error, (ZooKeeperFailure, UnreadableNode)):
        return KafkaError(ErrorCode.kafka_storage_error, str(error))
    if isinstance(error, NodeTooLarge):
        return KafkaError(ErrorCode.invalid_request, f"more than ZooKeeper accepts: {error}")
    return error


def as_kafka_error(error: Exception) -> KafkaError:
    """The client's error for a failure, or for a conflict after all attempts."""
    known = client_error(error)
    if isinstance(known, KafkaError):
        return known
    message = str(known)
    if isinstance(error, Conflict):
        message = f"others keep changing ZooKeeper's {error.operation.path}"
    return KafkaError(ErrorCode.kafka_storage_error, message)


def not_controller() -> KafkaError:
    return KafkaError(ErrorCode.not_controller, "this broker is not the controller")


def not_registered() -> KafkaError:
    """NOT_CONTROLLER, on which clients retry."""
    message = "this broker can change nothing until it is registered in ZooKeeper again"
    return KafkaError(ErrorCode.not_controller, message)


def _fenced(path: str) -> KafkaError | None:
    if path == layout.CONTROLLER_EPOCH:
        return not_controller()
    return not_registered() if path.startswith(_OF_BROKERS) else None


async def translated(answer: Awaitable[T]) -> T:
    """Await a result of the session.

    Raises:
        KafkaError: instead of the session's exceptions.
    """
    try:
        return await answer
    except (ZooKeeperFailure, UnreadableNode, NodeTooLarge) as error:
        raise client_error(error) from error
