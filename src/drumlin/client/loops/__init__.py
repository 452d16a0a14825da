"""The event loop that runs a client's core, as its calls see it, and the one in a thread."""
