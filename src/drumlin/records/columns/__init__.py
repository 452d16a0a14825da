"""Record batches <-> Arrow columns. For clients; a broker must never import it."""
