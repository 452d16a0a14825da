"""What clients did and saw, and the checker that finds what must not be in it."""
