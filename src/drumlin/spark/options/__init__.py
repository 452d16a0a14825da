"""Options of source, sink and state as plain values: offsets, ranges. Asks no cluster."""
