"""Topics and groups as an administrator sees them, and the coordinators that are asked for them."""
