"""The same requests to three brokers of each kind: what changes where there are several."""
