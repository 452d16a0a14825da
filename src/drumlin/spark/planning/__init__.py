"""What the driver decides before a task runs: which offsets, divided how. Reads no record."""
