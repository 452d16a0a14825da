"""`drumlin server` that counts no requests: neither their times nor their errors.

    python -m bench.seeing.uncounted server --data DIR ...

What it still does is a few additions for each batch, to the counts of its topic, and to look at the
clock after each request: by that, it ends its turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from drumlin.broker import router
from drumlin.broker.net import connection
from drumlin.broker.traffic.listener_counts import ListenerCounts
from drumlin.broker.traffic.timing import Timed, Timing
from drumlin.cli.main import main


class _Untimed(Timing):
    def arrived(self, now_s: float) -> None:
        pass

    def answered_at_once(self, frame: memoryview, began_s: float, now_s: float) -> None:
        pass

    def begun(self, frame: memoryview, began_s: float, now_s: float) -> Timed:
        return _NOTHING

    def answered(self, timed: Timed) -> Timed:
        return timed

    def ready(self, timed: Timed) -> None:
        pass

    def sent(self, is_drained: bool) -> None:
        pass


_NOTHING: Timed = ListenerCounts().of_key(0), 0.0, 0.0


def _no_errors(_: Any) -> Iterator[int]:
    return iter(())


if __name__ == "__main__":
    with (
        patch.object(connection, "Timing", _Untimed),
        patch.object(router, "errors_in", _no_errors),
    ):
        main()
