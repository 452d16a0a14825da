"""The processes of brokers in a run, over the real rules."""
