"""What this broker asks of others: markers, share states, ends of logs that are led elsewhere."""
