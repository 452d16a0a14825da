"""The state that the metrics show is that of the broker."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from broker.metrics.watched import Watched
from rig.waiting import wait_until

pytestmark = pytest.mark.clients


def test_a_log_and_the_lag_of_a_group(watched: Watched) -> None:
    watched.create("stations", partitions=2)
    watched.produce("stations", 7)
    settings = {"bootstrap.servers": watched.server.address, "group.id": "behind"}
    member = Consumer(settings)
    member.commit(offsets=[TopicPartition("stations", 0, 4)], asynchronous=False)
    seen = watched.now()
    at = '{partition="0",topic="stations"}'
    assert seen[f"drumlin_log_end_offset{at}"] == 7
    assert seen[f"drumlin_log_start_offset{at}"] == 0
    size = seen[f"drumlin_log_size_bytes{at}"]
    assert size == seen['drumlin_topic_received_bytes_total{topic="stations"}']
    assert sum(value for name, value in seen.items() if "drumlin_log_dir_used" in name) >= size
    free, total = (
        [value for name, value in seen.items() if name.startswith(f"drumlin_log_dir_{each}_bytes")]
        for each in ("free", "total")
    )
    assert 0 < free[0] <= total[0]
    assert (
        seen["drumlin_replication_in_sync_replicas"] == seen["drumlin_replication_partitions_led"]
    )
    at = '{group="behind",topic="stations"}'
    assert seen[f"drumlin_group_committed_offset{at}"] == 4
    assert seen[f"drumlin_group_lag_records{at}"] == 3
    before = seen[f"drumlin_group_lag_seconds{at}"]
    assert before >= 0
    wait_until(
        lambda: watched.now()[f"drumlin_group_lag_seconds{at}"] > before, "the lag to become longer"
    )
    member.commit(offsets=[TopicPartition("stations", 0, 7)], asynchronous=False)
    seen = watched.now()
    assert seen[f"drumlin_group_lag_records{at}"] == 0
    assert seen[f"drumlin_group_lag_seconds{at}"] == 0
    assert seen['drumlin_groups{protocol="Classic",state="Empty"}'] >= 1
    member.close()


def test_topics_that_are_not_chosen_are_one_in_groups_and_none_in_compaction(
    watched: Watched,
) -> None:
    watched.create("Ferries", "Trams", "buses", config={"cleanup.policy": "compact"})
    settings = {"bootstrap.servers": watched.server.address, "group.id": "reads-all"}
    member = Consumer(settings)
    for topic, records in (("Ferries", 3), ("Trams", 5), ("buses", 2)):
        watched.produce(topic, records)
        member.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    seen = watched.now()
    for topic, lag, committed in (("", 6, 2), ("buses", 1, 1)):
        at = f'{{group="reads-all",topic="{topic}"}}'
        assert seen[f"drumlin_group_lag_records{at}"] == lag
        assert seen[f"drumlin_group_committed_offset{at}"] == committed
        assert seen[f"drumlin_group_lag_seconds{at}"] >= 0
    assert not [series for series in seen if "Ferries" in series or "Trams" in series]
    assert 'drumlin_compaction_dirty_ratio{partition="0",topic="buses"}' in seen
    for topic in ("Trams", "buses"):
        next(iter(watched.admin.delete_topics([topic]).values())).result(30)

    def left() -> dict[str, float]:
        lags = 'drumlin_group_lag_records{group="reads-all"'
        return {series: lag for series, lag in watched.now().items() if series.startswith(lags)}

    rest = {'drumlin_group_lag_records{group="reads-all",topic=""}': 2.0}
    wait_until(lambda: left() == rest, "the end of the metrics of deleted topics")
    member.close()


def test_an_open_transaction(watched: Watched) -> None:
    watched.create("accounts")
    producer = Producer(
        {"bootstrap.servers": watched.server.address, "transactional.id": "transfer"}
    )
    producer.init_transactions(30)
    assert watched.now()["drumlin_transactions_oldest_open_seconds"] == 0
    producer.begin_transaction()
    producer.produce("accounts", b"1")
    producer.flush(30)
    seen = watched.now()
    assert seen['drumlin_transactions{state="Ongoing"}'] == 1
    assert seen["drumlin_transactions_oldest_open_seconds"] > 0
    undecided = "drumlin_transactions_oldest_undecided_seconds"
    wait_until(lambda: watched.now()[undecided] > 0, "readers that wait")
    producer.commit_transaction(30)
    wait_until(
        lambda: watched.now()["drumlin_transactions_oldest_open_seconds"] == 0, "it to be over"
    )
