"""Several brokers on one machine, started by one command: real processes, real clients."""
