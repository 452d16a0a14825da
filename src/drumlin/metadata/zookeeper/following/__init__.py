"""Changes by other brokers and tools: found by watches on znodes, and applied to the image."""
