"""What a mirror remembers comes back, however the mirror ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from drumlin.migration.mirror_state import MirrorState
from drumlin.migration.reconcile import Agreement, Node
from drumlin.migration.store_error import StoreError

PLACE = ("flights", 3)


def remember(state: MirrorState, offset: int) -> None:
    state.of("reporting", PLACE).agree(offset, offset)
    state.changed("reporting", PLACE)
    state.save()


def test_the_last_word_counts(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "state.json"
    state = MirrorState(path, "cluster")
    for offset in range(5000):
        remember(state, offset)
    agreement = state.of("reporting", PLACE)
    agreement.sent_to_broker.add(5)
    agreement.sent_to_zookeeper.add(Node(6, 7))
    state.changed("reporting", PLACE)
    state.save()
    remember(state, 4999)
    agreement.sent_to_broker.add(8)
    state.changed("reporting", PLACE)
    state.save()
    state.close()
    assert path.read_text().count("\n") < 2500  # it does not grow for ever
    with path.open("a") as torn:
        torn.write('{"group": "repo')
    state = MirrorState(path, "cluster")
    assert state.of("reporting", PLACE) == Agreement(4999, 4999, set(), {8})
    remember(state, 1)
    state.close()
    state = MirrorState(path, "cluster")
    assert state.of("reporting", PLACE) == Agreement(1, 1)
    state.close()


def test_a_file_has_one_mirror_and_one_cluster(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    first = MirrorState(path, "cluster")
    with pytest.raises(StoreError, match="another mirror runs"):
        MirrorState(path, "cluster")
    first.close()
    with pytest.raises(StoreError, match="another cluster, cluster"):
        MirrorState(path, "elsewhere")
    for junk in ("{}\n", "nonsense\n", '{"version": 1, "cluster_id": "cluster"}\n[]\n', ""):
        path.write_text(junk)
        with pytest.raises(StoreError, match="not the state of a mirror"):
            MirrorState(path, "cluster")
