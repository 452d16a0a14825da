"""What the outbox does with slices of log files that are not what they were."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from drumlin.broker.outbox import SENDFILE_MIN_BYTES, Outbox
from storage.samples import append, create, open_logs


@pytest.mark.parametrize("size", [1000, 2 * SENDFILE_MIN_BYTES])
def test_a_file_that_became_shorter_is_never_passed_off_as_whole(tmp_path: Path, size: int) -> None:
    """The peer was told how long the answer is; what came next would be taken for its rest."""
    logs = open_logs(tmp_path)
    log = create(logs)
    append(log, value=bytes(size))
    (piece,) = log.read(0, 1 << 20, 1, minimum_one_batch=True).slices
    os.truncate(log.segments.active.log_file.path, 200)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        outbox = Outbox(ours)
        with pytest.raises(OSError, match="log file ended"):
            outbox.put([b"announced", piece])
            outbox.flush()
        outbox.close()
    logs.abandon()
