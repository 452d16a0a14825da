"""Planning on the driver: which offsets are read, and by which tasks. Reads no record."""
