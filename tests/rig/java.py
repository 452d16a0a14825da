"""How Java runs in tests."""

from __future__ import annotations

#: For programs that are over before thorough compilation has paid.
SHORT_LIVED_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
