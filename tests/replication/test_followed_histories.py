"""Any history of leaders over real logs: all come to have the last leader's."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from drumlin.replication.followed_partition import FollowedPartition
from replication.leader import Led
from replication.test_followed_partition import catch_up, create, fetch
from rig.depth import seeds
from storage.samples import append, open_logs


@pytest.mark.parametrize("seed", seeds(6, 100))
def test_whoever_led_when_all_logs_come_to_be_the_last_leaders(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    all_logs = [open_logs(tmp_path / str(number)) for number in range(3)]
    logs = [create(each, "t") for each in all_logs]
    sequences: dict[str, Any] = {"number": 0}
    epoch, leader = 0, 0
    logs[0].start_leader_epoch(0)
    followers = {number: FollowedPartition(logs[number], 0, 0) for number in (1, 2)}
    for _ in range(150):
        led = Led(logs[leader], epoch)
        action = chance.random()
        if action < 0.08:
            epoch, leader = epoch + 1, chance.randrange(3)
            for each in followers.values():
                each.close()
            logs[leader].start_leader_epoch(epoch)
            followers = {
                number: FollowedPartition(logs[number], leader, epoch)
                for number in range(3)
                if number != leader
            }
        elif action < 0.4:
            sequences["number"] += 1
            value = b"%d" % sequences["number"]
            append(led.log, chance.randint(1, 4), leader_epoch=epoch, value=value)
        elif action < 0.45:
            led.log.delete_records_before(chance.randint(0, led.log.log_end_offset))
        elif action < 0.5:
            logs[chance.randrange(3)].flush()
        else:
            number = chance.choice(list(followers))
            fetch(followers[number], led, chance.choice([100, 1000]))
    led = Led(logs[leader], epoch)
    for each in followers.values():
        catch_up(each, led)
        start = max(each.log.log_start_offset, led.log.log_start_offset)
        for offset in range(start, led.log.log_end_offset):
            epochs = (each.log.leader_epochs, led.log.leader_epochs)
            assert epochs[0].epoch_for(offset) == epochs[1].epoch_for(offset)
    for each in all_logs:
        each.abandon()
