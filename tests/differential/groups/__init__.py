"""Groups of all kinds, asked of both brokers."""
