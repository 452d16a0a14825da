"""Administration of topics and groups, and lookups of coordinators."""
