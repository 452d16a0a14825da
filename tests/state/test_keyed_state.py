"""A state is a dict, whose changes since the last commit are known and can be forgotten."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from drumlin.state import KeyedState
from drumlin.state.changelog_format import POSITION_KEY
from drumlin.state.disk_store import DiskStore
from drumlin.state.keyed_state import JournaledState
from drumlin.state.stores import Checkpoint, MemoryStore, Store
from rig.depth import so_many

KEYS = st.sampled_from([b"", b"a", b"ab", b"b", b"\xff", b"\x00"])
AT = Checkpoint("", 1, 0, None)
VALUES = st.sampled_from([b"", b"1", b"2", b"x"])


class AgainstDict(RuleBasedStateMachine):
    """Beside it a dict, the dict of the last commit, and the changelog as a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.state = JournaledState(self.store())
        self.model: dict[bytes, bytes] = {}
        self.committed: dict[bytes, bytes] = {}
        self.changelog: dict[bytes, bytes] = {}

    def store(self) -> Store:
        return MemoryStore()

    @rule(key=KEYS, value=VALUES)
    def put(self, key: bytes, value: bytes) -> None:
        self.state[key] = self.model[key] = value

    @rule(key=KEYS)
    def delete(self, key: bytes) -> None:
        assert self.state.delete(key) == (self.model.pop(key, None) is not None)

    @rule(key=KEYS)
    def pop(self, key: bytes) -> None:
        assert self.state.pop(key, None) == self.model.pop(key, None)

    @rule(rows=st.lists(st.tuples(KEYS, st.none() | VALUES), max_size=8))
    def update_many(self, rows: list[tuple[bytes, bytes | None]]) -> None:
        self.state.update_many([key for key, _ in rows], [value for _, value in rows])
        for key, value in rows:
            if value is None:
                self.model.pop(key, None)
            else:
                self.model[key] = value

    @rule(keys=st.lists(KEYS, max_size=8))
    def count(self, keys: list[bytes]) -> None:
        if any(not self.model.get(key, b"0").isdigit() for key in keys):
            with pytest.raises(ValueError, match="is not a count"):
                self.state.count_by(keys)
            return
        told = self.state.count_by(keys)
        for key in keys:
            self.model[key] = b"%d" % (int(self.model.get(key, b"0")) + 1)
        assert dict(zip(*told.to_pydict().values(), strict=True)) == {
            key: int(self.model[key]) for key in keys
        }

    @rule()
    def clear(self) -> None:
        self.state.clear()
        self.model.clear()

    @rule()
    def commit(self) -> None:
        changes = self.state.changes()
        for key, value in changes.items():
            if value is None:
                del self.changelog[key]  # it was there: nothing is deleted in vain
            else:
                self.changelog[key] = value
        self.state.commit(changes, AT)
        self.committed = dict(self.model)
        assert not self.state.changes()
        assert self.changelog == self.model

    @rule()
    def abort(self) -> None:
        self.state.abort()
        self.model = dict(self.committed)
        assert not self.state.changes()

    @rule(key=KEYS, value=VALUES, is_kept=st.booleans())
    def attempt(self, key: bytes, value: bytes, is_kept: bool) -> None:
        before = dict(self.model)
        self.state.begin_attempt()
        self.put(key, value)
        self.delete(b"a")
        self.update_many([(b"a", value), (b"ab", None)])
        if is_kept:
            self.state.keep_attempt()
        else:
            self.state.undo_attempt()
            self.model = before

    @invariant()
    def they_are_equal(self) -> None:
        assert dict(self.state) == self.model
        assert len(self.state) == len(self.model)
        assert self.state.scan() == sorted(self.model.items())
        assert self.state.scan(b"a") == [each for each in self.state.scan() if each[0][:1] == b"a"]
        some = [b"", b"a", b"zz"]
        assert self.state.get_many(some) == [self.model.get(key) for key in some]
        for key in some:
            assert (key in self.state) == (key in self.model)
            assert self.state.get(key, b"?") == self.model.get(key, b"?")


class OnDisk(AgainstDict):
    """The same on disk, and opened again at some commits."""

    def store(self) -> Store:
        self._folder = tempfile.TemporaryDirectory()
        return self.opened()

    def opened(self) -> DiskStore:
        return DiskStore(Path(self._folder.name) / "0.sqlite")

    @rule()
    def open_again(self) -> None:
        self.state._store.close()
        self.state = JournaledState(self.opened())
        self.model = dict(self.committed)

    def teardown(self) -> None:
        self.state._store.close()
        self._folder.cleanup()


TestAgainstDict = AgainstDict.TestCase
TestOnDisk = OnDisk.TestCase
TestOnDisk.settings = settings(max_examples=so_many(10, 100), stateful_step_count=20)


@pytest.mark.parametrize(("key", "value"), [("a", b"1"), (b"a", "1"), (b"a", None), (1, b"1")])
def test_what_is_no_bytes_is_refused_by_name(key: object, value: object) -> None:
    state = KeyedState()
    with pytest.raises(TypeError, match=r"expected bytes"):
        state[key] = value  # type: ignore[index,assignment]
    assert not state


def test_the_changelogs_own_key_is_refused() -> None:
    state = KeyedState()
    with pytest.raises(ValueError, match="is reserved for the changelog"):
        state[POSITION_KEY] = b""
    with pytest.raises(ValueError, match="is reserved for the changelog"):
        state.update_many([b"a", POSITION_KEY], [b"1", b"2"])
    with pytest.raises(ValueError, match="is reserved for the changelog"):
        state.count_by([b"a", POSITION_KEY])
    assert not state


def test_columns_of_any_kind_of_bytes_are_taken() -> None:
    state = KeyedState()
    keys = pa.chunked_array([["a"], ["b", "a"]])
    state.update_many(keys, pa.array([b"1", b"2", None], pa.large_binary()))
    assert dict(state) == {b"b": b"2"}
    assert state.count_by(keys.dictionary_encode()).to_pydict() == {
        "key": [b"a", b"b"],
        "count": [2, 3],
    }


def test_rows_that_cannot_be_change_nothing() -> None:
    state = KeyedState({b"a": b"7"})
    with pytest.raises(ValueError, match="2 keys and 1 values"):
        state.update_many([b"a", b"b"], [b"1"])
    with pytest.raises(TypeError, match="key None"):
        state.update_many([b"a", None], [b"1", b"2"])
    with pytest.raises(TypeError, match="keys are int64"):
        state.count_by(pa.array([1, 2]))
    with pytest.raises(TypeError, match="1 of 2 are null"):
        state.count_by([b"a", None])
    assert dict(state) == {b"a": b"7"}
