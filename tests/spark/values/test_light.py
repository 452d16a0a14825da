"""The package stays light: PySpark imports it in every session that looks for data sources."""

from __future__ import annotations

import subprocess
import sys


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys, drumlin.spark\n"
        "print({'pyarrow', 'numpy', 'fastavro', 'google.protobuf'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
