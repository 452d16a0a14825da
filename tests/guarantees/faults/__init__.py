"""One broker, all that it is used for, and calls of the system that fail: see `run.py`."""
