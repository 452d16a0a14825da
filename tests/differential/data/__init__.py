"""Records and transactions, asked of both brokers."""
