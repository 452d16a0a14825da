"""Options of source, sink and state as plain values: offsets, ranges. Contacts no cluster."""
