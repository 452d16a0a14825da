"""Fetch requests: what they read (`reading.py`), how they continue and wait (`fetch.py`), without a
session (`plain.py`) and in one (`in_session.py`, `session.py`, `sessions.py`)."""
