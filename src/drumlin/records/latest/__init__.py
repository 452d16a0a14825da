"""Computing the last row of every key, as Arrow columns, in bounded memory."""
