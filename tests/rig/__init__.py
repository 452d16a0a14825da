"""Real brokers as subprocesses, and a raw client: what tests from outside are made of."""
