"""Search engines for tests."""
