"""The moment that the scripts' timestamps are counted from: that of this run."""

from __future__ import annotations

import time

NOW = int(time.time() * 1000)
