"""Reading ranges of logs into Arrow, and looking up offsets: of bounds, times and samples."""
