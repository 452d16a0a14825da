"""Java in tests: where it is, its jars, and programs that run in one JVM after another."""
