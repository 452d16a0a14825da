"""Quotas of clients: their limits, their usage, and the resulting throttle times."""
