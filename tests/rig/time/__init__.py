"""Time and turns of the loop as a test wants them."""
