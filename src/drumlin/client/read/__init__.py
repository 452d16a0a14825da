"""Reading ranges of logs into Arrow, and where logs begin, end and reached."""
