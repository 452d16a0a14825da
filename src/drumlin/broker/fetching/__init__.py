"""Fetch requests, with and without a session: reading, waiting, answering."""
