"""Sizes on which the decoder and its callers, which provide the memory, must agree.

Must not import anything of Drumlin.
"""

from __future__ import annotations

from typing import Final

#: A record of this size or more is not copied out of the memory that received it. Memory that is
#: reused after decoding must therefore be smaller.
LARGE_RECORD_BYTES: Final = 16 << 20
