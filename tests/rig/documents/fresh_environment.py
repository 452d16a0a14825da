"""An environment with what a document has installed, and nothing else.

Tests run where everything is installed, so they do not see that a document forgets a package.
By default an environment is made of links to what is installed here already, which takes a
moment. With DRUMLIN_TEST_WHEEL, the path of a wheel, it is what pip makes of that.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

_WHEEL: Final = os.environ.get("DRUMLIN_TEST_WHEEL")
#: The checkout, as documents name it in `pip install`.
_CHECKOUT: Final = re.compile(r"(?:\.\./drumlin|\.)(?=\[|$)")


class FreshEnvironment:
    """A Python without packages, into which packages are installed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        without = [] if _WHEEL else ["--without-pip"]
        subprocess.run([sys.executable, "-m", "venv", *without, str(folder)], check=True)
        (self._packages,) = folder.glob("lib/python*/site-packages")
        self._installed: set[str] = set()

    @property
    def programs(self) -> Path:
        return self._folder / "bin"

    @property
    def python(self) -> str:
        return str(self.programs / "python")

    @property
    def variables(self) -> dict[str, str]:
        """What a shell has in which this environment is active."""
        found = {name: each for name, each in os.environ.items() if not name.startswith("PYTHON")}
        path = f"{self.programs}{os.pathsep}{os.environ['PATH']}"
        return found | {"PATH": path, "VIRTUAL_ENV": str(self._folder)}

    def install(self, *wanted: str) -> None:
        """Like `pip install`: names of packages, or the checkout, with extras."""
        if _WHEEL:
            names = [_CHECKOUT.sub(_WHEEL.replace("\\", r"\\"), each) for each in wanted]
            command = [self.python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
            subprocess.run([*command, *names], check=True)
            return
        for each in wanted:
            self._link(Requirement(_CHECKOUT.sub("drumlin", each)))

    def _link(self, wanted: Requirement) -> None:
        found = metadata.distribution(wanted.name)
        for extra in ("", *sorted(wanted.extras)):
            if f"{wanted.name}[{extra}]" not in self._installed:
                self._installed.add(f"{wanted.name}[{extra}]")
                for line in found.requires or ():
                    needed = Requirement(line)
                    if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                        self._link(needed)
        for file in found.files or ():
            if ".." not in file.parts:
                self._link_part(Path(str(found.locate_file(""))), file.parts)
        for each in found.entry_points.select(group="console_scripts"):
            program = self.programs / each.name
            program.write_text(
                f"#!{self.python}\nimport sys\nfrom {each.module} import {each.attr}\n"
                f"sys.exit({each.attr}())\n"
            )
            program.chmod(0o755)

    def _link_part(self, source: Path, parts: tuple[str, ...]) -> None:
        """The outermost folder that is the package's alone: a namespace is shared."""
        for count in range(1, len(parts) + 1):
            there = source.joinpath(*parts[:count])
            is_shared = there.is_dir() and not (there / "__init__.py").exists()
            if not is_shared or there.suffix == ".dist-info":
                break
        link = self._packages.joinpath(*parts[:count])
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink() and there.exists() and not link.exists():
            link.symlink_to(there)
