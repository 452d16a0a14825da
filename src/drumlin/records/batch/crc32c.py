"""The CRC32C of a library, loaded as the bare function.

The library's package imports the parts of its command line and reads its own version: that takes
as long as a fifth of a broker's start, or of a command.
"""

from __future__ import annotations

from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crc32c import crc32c
else:

    def _bare() -> Any:
        """The library's compiled part; the whole, if it is made otherwise."""
        package = find_spec("crc32c")
        found = package and PathFinder.find_spec("_crc32c", package.submodule_search_locations)
        if not found or not found.loader:
            import crc32c as whole

            return whole
        compiled = module_from_spec(found)
        found.loader.exec_module(compiled)
        return compiled

    crc32c = _bare().crc32c

__all__ = ["crc32c"]
