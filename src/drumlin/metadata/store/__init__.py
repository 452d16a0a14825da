"""What every metadata store promises, and what its mutations have in common."""
