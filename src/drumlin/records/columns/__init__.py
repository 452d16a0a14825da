"""Record batches <-> Arrow columns, for clients. A broker must never import it."""
