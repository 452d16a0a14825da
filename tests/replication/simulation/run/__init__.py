"""One run: its brokers, clients and faults, and the ledger of what was promised."""
