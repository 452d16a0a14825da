"""A step of every build of the package: the libraries of kernels, made before it is packed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_RUN = """
import runpy, sys
sys.path.insert(0, {source!r})
runpy.run_module("drumlin.records.kernels.toolchain", run_name="__main__")
"""


class KernelBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Called by the build backend, for a wheel and for an editable installation."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Nothing is made where no source has changed."""
        # Not by PYTHONPATH: pip takes from it what an earlier editable installation has added.
        run = _RUN.format(source=str(Path(self.root, "src")))
        subprocess.run([sys.executable, "-c", run], check=True)  # noqa: S603 - our own words
