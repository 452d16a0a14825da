"""Drumlin: a commit-log platform that speaks the Kafka wire protocol.

`drumlin.connect("127.0.0.1:9092")` returns a `Client` of any Kafka cluster. Other public names can
be imported from here as well: the types of results, and errors.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

from drumlin.version import __version__

if TYPE_CHECKING:
    from drumlin import aio as aio
    from drumlin import lowlevel as lowlevel
    from drumlin import security as security
    from drumlin import state as state
    from drumlin.client.admin.admin import ConfigEntry as ConfigEntry
    from drumlin.client.admin.admin import TopicDescription as TopicDescription
    from drumlin.client.admin.committed_offsets import OffsetAndMetadata as OffsetAndMetadata
    from drumlin.client.admin.group_admin import GroupDescription as GroupDescription
    from drumlin.client.admin.group_admin import GroupListing as GroupListing
    from drumlin.client.admin.group_offsets import GroupLag as GroupLag
    from drumlin.client.client import Client as Client
    from drumlin.client.client import connect as connect
    from drumlin.client.consumer import Consumer as Consumer
    from drumlin.client.consumer import topic_of as topic_of
    from drumlin.client.errors import AuthenticationFailed as AuthenticationFailed
    from drumlin.client.errors import BrokerUnreachable as BrokerUnreachable
    from drumlin.client.errors import BufferFull as BufferFull
    from drumlin.client.errors import ClientError as ClientError
    from drumlin.client.errors import CommitFailed as CommitFailed
    from drumlin.client.errors import CorruptData as CorruptData
    from drumlin.client.errors import DeliveryFailed as DeliveryFailed
    from drumlin.client.errors import EqualKeys as EqualKeys
    from drumlin.client.errors import FollowingEnded as FollowingEnded
    from drumlin.client.errors import LogEndsEarly as LogEndsEarly
    from drumlin.client.errors import LogTruncated as LogTruncated
    from drumlin.client.errors import MembershipEnded as MembershipEnded
    from drumlin.client.errors import NoCommittedOffset as NoCommittedOffset
    from drumlin.client.errors import NotAuthorized as NotAuthorized
    from drumlin.client.errors import NotRestored as NotRestored
    from drumlin.client.errors import OffsetOutOfRange as OffsetOutOfRange
    from drumlin.client.errors import OffsetStoreFailed as OffsetStoreFailed
    from drumlin.client.errors import OffsetStoreUnreachable as OffsetStoreUnreachable
    from drumlin.client.errors import RecordsMissing as RecordsMissing
    from drumlin.client.errors import RequestRefused as RequestRefused
    from drumlin.client.errors import RequestTimedOut as RequestTimedOut
    from drumlin.client.errors import StateNotExact as StateNotExact
    from drumlin.client.errors import TableTooLarge as TableTooLarge
    from drumlin.client.errors import TopicExists as TopicExists
    from drumlin.client.errors import Undecodable as Undecodable
    from drumlin.client.errors import UnknownTopic as UnknownTopic
    from drumlin.client.places import Milliseconds as Milliseconds
    from drumlin.client.read.offsets import OffsetAndTimestamp as OffsetAndTimestamp
    from drumlin.client.read.reader import ReadRecord as ReadRecord
    from drumlin.client.restore.restoring import RestoreReport as RestoreReport
    from drumlin.client.table.options import Change as Change
    from drumlin.client.table.table import Table as Table
    from drumlin.client.topic_partition import TopicPartition as TopicPartition
    from drumlin.client.transactions.errors import NothingToEnd as NothingToEnd
    from drumlin.client.transactions.errors import OutcomeUnknown as OutcomeUnknown
    from drumlin.client.transactions.errors import ProducerFenced as ProducerFenced
    from drumlin.client.transactions.errors import TransactionAborted as TransactionAborted
    from drumlin.client.transactions.errors import TransactionCommitted as TransactionCommitted
    from drumlin.client.transactions.errors import TransactionError as TransactionError
    from drumlin.client.transactions.errors import TransactionFailed as TransactionFailed
    from drumlin.client.transactions.errors import TransactionOver as TransactionOver
    from drumlin.client.transactions.errors import TransactionTimedOut as TransactionTimedOut
    from drumlin.client.transactions.errors import UnknownTransaction as UnknownTransaction
    from drumlin.client.transactions.transaction import Transaction as Transaction
    from drumlin.client.values.avro.avro_encoder import AvroEncoder as AvroEncoder
    from drumlin.client.values.decoded import Decoded as Decoded
    from drumlin.client.values.decoder import ValueDecoder as ValueDecoder
    from drumlin.client.values.errors import DecoderUnavailable as DecoderUnavailable
    from drumlin.client.values.errors import RegistryError as RegistryError
    from drumlin.client.values.errors import RegistryUnavailable as RegistryUnavailable
    from drumlin.client.values.errors import SchemaError as SchemaError
    from drumlin.client.values.errors import UnknownSchema as UnknownSchema
    from drumlin.client.values.protobuf.protobuf_encoder import ProtobufEncoder as ProtobufEncoder
    from drumlin.client.values.registry import SchemaRegistry as SchemaRegistry
    from drumlin.client.write.appender import AppendReport as AppendReport
    from drumlin.client.write.open_batch import Delivered as Delivered
    from drumlin.client.write.open_batch import Delivery as Delivery
    from drumlin.client.write.writer import Writer as Writer
    from drumlin.serving.materialize import materialize as materialize
    from drumlin.serving.materializing import Progress as Progress
    from drumlin.serving.target import TargetRefused as TargetRefused

#: The modules that define public names. They are imported on first use, as the broker and the
#: command line must not pay for the client.
_DEFINED_IN: Final = {
    "drumlin.client.write.appender": ("AppendReport",),
    "drumlin.client.client": ("Client", "connect"),
    "drumlin.client.admin.admin": ("ConfigEntry", "TopicDescription"),
    "drumlin.client.admin.committed_offsets": ("OffsetAndMetadata",),
    "drumlin.client.admin.group_admin": ("GroupDescription", "GroupListing"),
    "drumlin.client.admin.group_offsets": ("GroupLag",),
    "drumlin.client.consumer": ("Consumer", "topic_of"),
    "drumlin.client.errors": (
        "AuthenticationFailed",
        "BrokerUnreachable",
        "BufferFull",
        "ClientError",
        "CommitFailed",
        "CorruptData",
        "DeliveryFailed",
        "EqualKeys",
        "FollowingEnded",
        "LogEndsEarly",
        "LogTruncated",
        "MembershipEnded",
        "NoCommittedOffset",
        "NotAuthorized",
        "NotRestored",
        "OffsetOutOfRange",
        "OffsetStoreFailed",
        "OffsetStoreUnreachable",
        "RecordsMissing",
        "RequestRefused",
        "RequestTimedOut",
        "StateNotExact",
        "TableTooLarge",
        "TopicExists",
        "Undecodable",
        "UnknownTopic",
    ),
    "drumlin.client.write.open_batch": ("Delivered", "Delivery"),
    "drumlin.client.places": ("Milliseconds",),
    "drumlin.client.read.offsets": ("OffsetAndTimestamp",),
    "drumlin.client.read.reader": ("ReadRecord",),
    "drumlin.client.restore.restoring": ("RestoreReport",),
    "drumlin.client.table.options": ("Change",),
    "drumlin.client.table.table": ("Table",),
    "drumlin.client.topic_partition": ("TopicPartition",),
    "drumlin.client.transactions.errors": (
        "NothingToEnd",
        "OutcomeUnknown",
        "ProducerFenced",
        "TransactionAborted",
        "TransactionCommitted",
        "TransactionError",
        "TransactionFailed",
        "TransactionOver",
        "TransactionTimedOut",
        "UnknownTransaction",
    ),
    "drumlin.client.transactions.transaction": ("Transaction",),
    "drumlin.client.values.avro.avro_encoder": ("AvroEncoder",),
    "drumlin.client.values.protobuf.protobuf_encoder": ("ProtobufEncoder",),
    "drumlin.client.values.decoded": ("Decoded",),
    "drumlin.client.values.decoder": ("ValueDecoder",),
    "drumlin.client.values.errors": (
        "DecoderUnavailable",
        "RegistryError",
        "RegistryUnavailable",
        "SchemaError",
        "UnknownSchema",
    ),
    "drumlin.client.values.registry": ("SchemaRegistry",),
    "drumlin.client.write.writer": ("Writer",),
    "drumlin.serving.materialize": ("materialize",),
    "drumlin.serving.materializing": ("Progress",),
    "drumlin.serving.target": ("TargetRefused",),
}
#: Public modules: the client for asyncio, security of connections, states kept in logs, and calls
#: that few programs need.
_BEHIND_DOORS: Final = ("aio", "lowlevel", "security", "state")
_MODULES: Final = {name: module for module, names in _DEFINED_IN.items() for name in names}

__all__ = [
    "__version__",
    *_BEHIND_DOORS,
    *sorted(_MODULES),
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        from drumlin.client.needs_arrow import needing_arrow

        with needing_arrow():
            return getattr(importlib.import_module(_MODULES[name]), name)
    if name in _BEHIND_DOORS:
        return importlib.import_module(f"drumlin.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
