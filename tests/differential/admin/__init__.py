"""Topics, configurations, features and rights, asked of both brokers."""
