"""`drumlin top`: looks at a cluster become rates, rates become rows, rows a picture."""
