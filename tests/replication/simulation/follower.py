"""A follower by the rules of KIP-101, KIP-279 and KIP-595: it truncates by leader epoch alone."""

from __future__ import annotations

from drumlin.storage.leader_epochs import UNDEFINED, EpochEnd

from .disk import SimulatedLog
from .leader import FetchAnswer, FetchRequest


class Follower:
    """One partition that follows a leader, in one leader epoch."""

    def __init__(self, node_id: int, log: SimulatedLog, leader: int, leader_epoch: int) -> None:
        self.node_id, self.log = node_id, log
        self.leader, self.epoch = leader, leader_epoch

    def request(self, broker_epoch: int) -> FetchRequest:
        log = self.log
        return FetchRequest(
            self.node_id,
            broker_epoch,
            self.epoch,
            log.log_end_offset,
            self.last_fetched_epoch(),
            log.log_start_offset,
        )

    def last_fetched_epoch(self) -> int:
        """Of the last record, which is not that of an epoch in which we led and got nothing."""
        log, last = self.log, UNDEFINED
        for entry in log.leader_epochs.entries:
            if entry.start_offset < log.log_end_offset:
                last = entry.epoch
        return last

    def answered(self, request: FetchRequest, answer: FetchAnswer) -> None:
        log = self.log
        if answer.leader_epoch != self.epoch or request.offset != log.log_end_offset:
            return
        if answer.diverging is not None:
            self.diverged(answer.diverging)
        elif answer.is_out_of_range:
            self._out_of_range(answer)
        else:
            log.append_as_follower(answer.records)
            self._follow(answer)

    def diverged(self, end: EpochEnd) -> None:
        """Our log and the leader's part at the latest where `end` says."""
        log = self.log
        own = log.end_offset_for_epoch(end.epoch)
        if own.epoch == UNDEFINED:  # all that we have is of later epochs
            log.truncate_to(min(end.end_offset, log.log_end_offset))
        else:
            log.truncate_to(min(own.end_offset, end.end_offset))

    def _out_of_range(self, answer: FetchAnswer) -> None:
        log = self.log
        if log.log_end_offset > answer.log_end_offset:
            log.truncate_to(answer.log_end_offset)
        else:
            log.truncate_fully_and_start_at(answer.log_start_offset)

    def _follow(self, answer: FetchAnswer) -> None:
        log = self.log
        mark = min(answer.high_watermark, log.log_end_offset)
        log.high_watermark = max(log.high_watermark, mark)
        log.delete_records_before(min(answer.log_start_offset, log.high_watermark))
