"""A group's offsets: where reading starts, and committing them. Fetches nothing."""
