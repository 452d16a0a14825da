"""What this broker asks of others: where a leader or a coordinator is elsewhere in the cluster."""
