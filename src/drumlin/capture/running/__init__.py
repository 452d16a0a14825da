"""A running capture: its starting point, its snapshot, its stream, and its retries."""
