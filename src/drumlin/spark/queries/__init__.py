"""What a running query shows of itself: its progress in Python and for Prometheus."""
