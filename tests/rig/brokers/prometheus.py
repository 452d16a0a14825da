"""What a server says on its `drumlin.metrics.listener`."""

from __future__ import annotations

import re
import urllib.request


def scrape(port: int) -> dict[str, float]:
    """All measures of 127.0.0.1 at the port: as a line names one, with its labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as page:
        text = page.read().decode()
    return {
        name: float(value) for name, value in re.findall(r"^([^#\s].*) (\S+)$", text, re.MULTILINE)
    }
