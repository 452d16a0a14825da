"""Commands about topics and what is in them: configurations, cleaning, transactions, sinks."""
