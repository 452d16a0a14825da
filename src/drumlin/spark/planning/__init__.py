"""Planning on the driver: the offsets to read, divided among tasks. Reads no record."""
