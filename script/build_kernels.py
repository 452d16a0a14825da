"""A step of every build of the package: the libraries of kernels, made before it is packed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Called by the build backend, for a wheel and for an editable installation."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Nothing is made where no source has changed."""
        path = filter(None, [str(Path(self.root, "src")), os.environ.get("PYTHONPATH")])
        subprocess.run(
            [sys.executable, "-m", "drumlin.records.kernels.toolchain"],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path)},
            check=True,
        )
