"""The cleaner threads, their choice of the next log, and reports on their work."""
