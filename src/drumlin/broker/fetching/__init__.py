"""Fetch requests: what they read (`reading.py`), how they go on and wait (`fetch.py`), without a
session (`plain.py`) and in one (`in_session.py`, `session.py`, `sessions.py`)."""
