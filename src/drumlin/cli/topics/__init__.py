"""Commands about topics: their configurations, cleaning, transactions and sinks."""
