"""Loading logs after a start: checked, and repaired where a crash has broken them."""
