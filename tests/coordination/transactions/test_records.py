"""Keys and values of `__transaction_state`: the bytes of Kafka's own classes, and odd ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drumlin.coordination.internal_records.record_schema import UnreadableRecord
from drumlin.coordination.transactions.participants import Participants
from drumlin.coordination.transactions.records import (
    TransactionMetadata,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from drumlin.coordination.transactions.states import TransactionState

NOW = 1_700_000_000_000
_ONGOING = TransactionMetadata(
    producer_id=7,
    producer_epoch=0,
    timeout_ms=60_000,
    state=TransactionState.ONGOING,
    partitions=Participants({("t", 3)}),
    start_timestamp_ms=NOW + 1,
    last_update_timestamp_ms=NOW + 2,
    previous_producer_id=7,
    client_version=2,
)

#: Written by `TransactionLog.valueToBytes` of Apache Kafka 4.3.0 with transaction.version 2. (Its
#: partitions stand in the order of a hash set; here they are sorted.)
WRITTEN_BY_KAFKA = {
    "a new producer": (
        TransactionMetadata(
            7, 0, 60_000, TransactionState.EMPTY, Participants(), -1, NOW, previous_producer_id=7
        ),
        (
            "0001000000000000000700000000ea6000000000018bcfe56800ffffffffffffffff"
            "0100080000000000000007"
        ),
    ),
    "transactions v2": (
        _ONGOING,
        (
            "0001000000000000000700000000ea60010202740200000003000000018bcfe568020000018bcfe56801"
            "020008000000000000000702020002"
        ),
    ),
    "classic": (
        replace(
            _ONGOING,
            producer_epoch=3,
            partitions=Participants({("t", 3), ("t", 4)}),
            client_version=0,
        ),
        (
            "0001000000000000000700030000ea6001020274030000000300000004000000018bcfe568020000018bcfe568"
            "010100080000000000000007"
        ),
    ),
    "the last epoch": (
        replace(
            _ONGOING,
            producer_epoch=2**15 - 1,
            state=TransactionState.PREPARE_COMMIT,
            last_update_timestamp_ms=NOW + 3,
            next_producer_id=8,
        ),
        (
            "000100000000000000077fff0000ea60020202740200000003000000018bcfe568030000018bcfe5680103"
            "000800000000000000070108000000000000000802020002"
        ),
    ),
    "a new producer id": (
        replace(
            _ONGOING,
            producer_id=8,
            state=TransactionState.COMPLETE_COMMIT,
            partitions=Participants(),
            last_update_timestamp_ms=NOW + 4,
        ),
        (
            "0001000000000000000800000000ea6004010000018bcfe568040000018bcfe56801"
            "020008000000000000000702020002"
        ),
    ),
    "aborted": (
        TransactionMetadata(
            8,
            12,
            900_000,
            TransactionState.COMPLETE_ABORT,
            Participants(),
            NOW + 1,
            NOW + 4,
            previous_producer_id=8,
            client_version=1,
        ),
        (
            "00010000000000000008000c000dbba005010000018bcfe568040000018bcfe56801"
            "020008000000000000000802020001"
        ),
    ),
}


@pytest.mark.parametrize("case", WRITTEN_BY_KAFKA)
def test_values_are_those_of_kafka(case: str) -> None:
    value, written = WRITTEN_BY_KAFKA[case]
    assert encode_value(value).hex() == written
    assert decode_value(bytes.fromhex(written)) == value


@pytest.mark.parametrize(
    ("transactional_id", "written"),
    [("my-id", "000000056d792d6964"), ("größe", "000000076772c3b6c39f65"), ("", "00000000")],
)
def test_keys_are_those_of_kafka(transactional_id: str, written: str) -> None:
    assert encode_key(transactional_id).hex() == written
    assert decode_key(bytes.fromhex(written)) == transactional_id


def test_values_of_version_0_are_read() -> None:
    """Those of clusters without transaction.version, as Apache Kafka has written them."""
    empty = "0000000000000000000700000000ea6000ffffffff0000018bcfe56800ffffffffffffffff"
    ongoing = (
        "0000000000000000000700030000ea6001000000010001740000000200000004000000030000018bcfe56802"
        "0000018bcfe56801"
    )
    assert decode_value(bytes.fromhex(empty)) == TransactionMetadata(
        7, 0, 60_000, TransactionState.EMPTY, Participants(), -1, NOW
    )
    assert decode_value(bytes.fromhex(ongoing)) == TransactionMetadata(
        7, 3, 60_000, TransactionState.ONGOING, frozenset({("t", 3), ("t", 4)}), NOW + 1, NOW + 2
    )


def test_several_topics() -> None:
    value = replace(_ONGOING, partitions=Participants({("b", 1), ("a", 9), ("a", 2), ("ü", 0)}))
    assert decode_value(encode_value(value)) == value


def test_the_epoch_before_is_not_in_the_log() -> None:
    value = replace(_ONGOING, last_producer_epoch=5)
    assert decode_value(encode_value(value)) == _ONGOING


def test_unknown_tags_are_skipped() -> None:
    """Kafka has a tag 3, nextProducerEpoch, and may have more one day."""
    written = bytearray.fromhex(WRITTEN_BY_KAFKA["a new producer"][1])
    count = written.index(b"\x01\x00\x08", 30)
    written[count] = 2
    written += b"\x03\x02\x00\x05"
    assert decode_value(bytes(written)) == WRITTEN_BY_KAFKA["a new producer"][0]


def test_keys_of_other_types_are_left_alone() -> None:
    assert decode_key(b"\x00\x01\x00\x01x") is None


@pytest.mark.parametrize(
    ("what", "data"),
    [
        ("version 2", "0002"),
        ("a negative version", "ffff"),
        ("no bytes", ""),
        ("state 9", "0001000000000000000700000000ea600901"),
        ("an endless array", "0001000000000000000700000000ea6001ffffffff0f"),
        (
            "a short tag",
            "0001000000000000000700000000ea6000000000018bcfe56800ffffffffffffffff01000100",
        ),
    ],
)
def test_what_is_no_value_is_refused(what: str, data: str) -> None:
    with pytest.raises(UnreadableRecord):
        decode_value(bytes.fromhex(data))


def test_cut_values_are_refused() -> None:
    written = bytes.fromhex(WRITTEN_BY_KAFKA["the last epoch"][1])
    for size in range(len(written)):
        with pytest.raises(UnreadableRecord):
            decode_value(written[:size])
