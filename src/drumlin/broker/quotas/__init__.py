"""Quotas of clients: what they may use, what they have used, and how long they have to wait."""
