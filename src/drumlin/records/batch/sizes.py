"""Sizes on which decoding and its callers, which hand it memory, must agree.

Imports nothing of Drumlin.
"""

from __future__ import annotations

from typing import Final

#: A record of this size or more is not copied out of the memory that it was received in. Memory
#: that is used again after decoding must therefore be smaller.
LARGE_RECORD_BYTES: Final = 16 << 20
