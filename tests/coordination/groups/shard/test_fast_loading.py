"""Loading by a kernel, and without one, beside a slow twin that goes record by record."""

from __future__ import annotations

import random
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumlin.coordination.groups.classic.records import GroupKey, GroupMetadata
from drumlin.coordination.groups.offsets.offset_records import (
    CommittedOffset,
    OffsetKey,
    decode_offset,
)
from drumlin.coordination.groups.shard.log import encode_batches, load
from drumlin.coordination.groups.shard.record_registry import decode_key, encode_record, type_of
from drumlin.coordination.internal_records import latest_records
from drumlin.coordination.internal_records.record_schema import UnreadableRecord
from drumlin.coordination.shards.state_batches import Producer
from drumlin.records.batch.batch import iterate_headers
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.kernels import compaction_kernels
from drumlin.records.plain.record import Record, decode_batch, encode_batch
from drumlin.storage.producers.control_records import encode_marker, parse_marker
from drumlin.storage.producers.producer_state import TransactionMarker
from rig.data.committed_offsets import loaded_offsets
from rig.depth import so_many

WAYS = ["kernel", "plain", "late kernel"]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    choose(request.param, monkeypatch)
    return str(request.param)


def choose(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = compaction_kernels.loaded
    assert kernels is not None
    worth = {"kernel": -1, "plain": 1 << 40, "late kernel": 1_500}[way]
    monkeypatch.setattr(latest_records, "_WORTH_KERNELS_BYTES", worth)
    monkeypatch.setattr(latest_records, "_ENTRIES_FIRST", 2)
    monkeypatch.setattr(latest_records, "_ARENA_BYTES_FIRST", 100)


class _Said(NamedTuple):
    order: int
    value: bytes | None


class Twin:
    """Record after record, as one would without being in a hurry."""

    def __init__(self, batches: list[bytes]) -> None:
        self.latest: dict[bytes, _Said] = {}
        self.pending: dict[int, dict[bytes, _Said]] = {}
        self.count = 0
        for batch in batches:
            for position, header in iterate_headers(batch):
                if header.is_control:
                    marker = parse_marker(memoryview(batch)[position:], header)
                    assert marker is not None
                    self._end(header.producer_id, marker.is_commit)
                    continue
                for record in decode_batch(batch, position):
                    key, said = record.key or b"", _Said(self.count, record.value)
                    self.count += 1
                    if header.is_transactional:
                        self.pending.setdefault(header.producer_id, {})[key] = said
                        continue
                    self.latest.pop(key, None)
                    self.latest[key] = said
                    if record.value is None:
                        for pending in self.pending.values():
                            pending.pop(key, None)

    def _end(self, producer_id: int, is_commit: bool) -> None:
        for key, said in self.pending.pop(producer_id, {}).items():
            known = self.latest.get(key)
            if is_commit and (known is None or known.order < said.order):
                self.latest.pop(key, None)
                self.latest[key] = said

    def offsets(self) -> dict[OffsetKey, CommittedOffset]:
        found = {}
        for raw_key, said in sorted(self.latest.items(), key=lambda each: each[1].order):
            key = decode_key(raw_key)
            if isinstance(key, OffsetKey) and said.value is not None:
                found[key] = decode_offset(said.value)
        return found

    def groups(self) -> dict[str, list[tuple[Any, Any]]]:
        found: dict[str, list[tuple[Any, Any]]] = {}
        for raw_key, said in sorted(self.latest.items(), key=lambda each: each[1].order):
            key = decode_key(raw_key)
            if key is not None and not isinstance(key, OffsetKey) and said.value is not None:
                decoded = type_of(key).value.decode(said.value)
                found.setdefault(key.group_id, []).append((key, decoded))
        return found

    def waiting(self) -> list[tuple[int, OffsetKey, CommittedOffset, bool]]:
        still = [
            (said.order, producer_id, key, said.value)
            for producer_id, pending in self.pending.items()
            for key, said in pending.items()
        ]
        found = []
        for order, producer_id, raw_key, value in sorted(still):
            key, known = decode_key(raw_key), self.latest.get(raw_key)
            if isinstance(key, OffsetKey) and value is not None:
                is_superseded = known is not None and known.order > order
                found.append((producer_id, key, decode_offset(value), is_superseded))
        return found


def a_batch(chance: random.Random, number: int) -> bytes:
    records: list[Record] = []
    is_transactional = chance.random() < 0.35
    for index in range(chance.choice([1, 1, 1, 2, 9])):
        value: Any
        if is_transactional or chance.random() < 0.8:
            key: Any = OffsetKey(
                f"g{chance.randrange(3)}", chance.choice("tu"), chance.randrange(3)
            )
            text = chance.choice(["", "", "m" * chance.randrange(90)])
            topic_id = chance.choice([None, UUID(int=7), UUID(int=8)])
            value = CommittedOffset(number, -1, text, 1, None, topic_id)
        else:
            key = GroupKey(f"g{chance.randrange(3)}")
            value = GroupMetadata("consumer", number, None, None, number, ())
        raw, said = encode_record((key, value))
        if isinstance(key, OffsetKey) and chance.random() < 0.05:
            raw = b"\0\0" + raw[2:]  # the older type of the same key
        records.append(Record(index, 1, raw, None if chance.random() < 0.15 else said))
    if not is_transactional:
        return bytes(encode_batch(records, compression=chance.choice(["none"] * 5 + ["gzip"])))
    producer_id = chance.randrange(3)
    if chance.random() < 0.5:
        return bytes(encode_marker(TransactionMarker(chance.random() < 0.6, 0), producer_id, 0, 1))
    return bytes(
        encode_batch(records, producer_id=producer_id, producer_epoch=0, is_transactional=True)
    )


@given(seed=st.integers(0, 2**32), way=st.sampled_from(WAYS))
@settings(max_examples=so_many(80, 250), deadline=None)
def test_what_is_loaded_is_what_the_twin_finds(seed: int, way: str) -> None:
    chance = random.Random(seed)
    batches = [a_batch(chance, number) for number in range(chance.choice([5, 60, 200]))]
    twin = Twin(batches)
    buffers, left = [], list(batches)
    while left:
        size = chance.randrange(1, 30)
        buffers.append(b"".join(left[:size]))
        left = left[size:]
    with pytest.MonkeyPatch.context() as monkeypatch:
        choose(way, monkeypatch)
        loaded = load(buffers)
    assert loaded.records == twin.count
    assert loaded_offsets(loaded) == twin.offsets()
    assert {name: group.records for name, group in loaded.groups.items()} == twin.groups()
    pending = [
        (each.producer_id, each.key, decode_offset(each.value), each.is_superseded)
        for each in loaded.pending
    ]
    assert pending == twin.waiting()


def damaged(log: bytes, chance: random.Random) -> bytes:
    data = bytearray(log)
    for _ in range(chance.choice([1, 1, 2, 5])):
        place = chance.randrange(len(data))
        how = chance.randrange(4)
        if how == 0:
            data[place] ^= 1 << chance.randrange(8)
        elif how == 1:
            data[place] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
        elif how == 2:
            data[place : place + chance.randrange(9)] = chance.randbytes(chance.randrange(9))
        else:
            del data[place + 1 :]
    return bytes(data) or b"x"


@given(seed=st.integers(0, 2**32))
@settings(max_examples=so_many(80, 250), deadline=None)
def test_a_damaged_log_is_the_same_to_a_kernel_and_without(seed: int) -> None:
    """The same is read of it, or it is refused alike. CRCs are not looked at here."""
    chance = random.Random(seed)
    log = b"".join(a_batch(chance, number) for number in range(chance.choice([1, 3, 8])))
    said: list[Any] = []
    log = damaged(log, chance)
    for way in ("kernel", "plain"):
        with pytest.MonkeyPatch.context() as monkeypatch:
            choose(way, monkeypatch)
            try:
                loaded = load([log])
            except Exception as error:  # whatever it is, both are to raise it
                said.append(type(error))
            else:
                groups = {name: group.records for name, group in loaded.groups.items()}
                said.append((loaded.offsets, groups, loaded.pending, loaded.records))
    assert said[0] == said[1]


def test_many_keys(way: str) -> None:
    records = [
        (OffsetKey(f"group-{number % 50}", "t", number), CommittedOffset(number, 3, "", 1))
        for number in range(5_000)
    ]
    batches = [bytes(batch) for batch, _ in encode_batches(records, 1, bytes_max=2_000)]
    loaded = load(batches)
    assert loaded_offsets(loaded) == dict(records)


def test_a_batch_that_is_not_what_its_header_promises(way: str) -> None:
    fine = [(OffsetKey("g", "t", number), CommittedOffset(1, 1, "", 1)) for number in range(60)]
    batches = [bytes(batch) for batch, _ in encode_batches(fine, 1, bytes_max=200)]
    ((broken, _),) = encode_batches(fine[:3], 1)
    broken[61] = 0x7F
    with pytest.raises(CorruptRecord):
        load([*batches, bytes(broken)])


def test_a_producers_offsets_count_when_they_are_committed(way: str) -> None:
    key = OffsetKey("g", "t", 0)
    first, second = (CommittedOffset(offset, 1, "", 1) for offset in (5, 6))
    ((open_batch, _),) = encode_batches([(key, second)], 1, producer=Producer(7, 0))
    ((plain, _),) = encode_batches([(key, first)], 1)
    padding = [bytes(batch) for batch, _ in encode_batches([(key, first)] * 60, 1, bytes_max=200)]
    end = encode_marker(TransactionMarker(True, 0), 7, 0, 1)
    log = [*padding, bytes(plain), bytes(open_batch)]
    assert loaded_offsets(load(log)) == {key: first}
    assert loaded_offsets(load([*log, bytes(end)])) == {key: second}
    late = [*padding, bytes(open_batch), bytes(plain), bytes(end)]
    assert loaded_offsets(load(late)) == {key: first}


def test_a_value_that_is_only_as_long_as_most_of_them(way: str) -> None:
    value = CommittedOffset(5, -1, "", 1, None, UUID(int=7))
    fine = [(OffsetKey("g", "t", number), value) for number in range(60)]
    batches = [bytes(batch) for batch, _ in encode_batches(fine, 1, bytes_max=200)]
    raw_key, raw = encode_record(fine[-1])
    assert raw is not None
    broken = encode_batch([Record(0, 1, raw_key, b"\0\x09" + raw[2:])])
    with pytest.raises(UnreadableRecord):
        load([*batches, bytes(broken)])
