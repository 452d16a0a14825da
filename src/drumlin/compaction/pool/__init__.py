"""The threads that clean, which log they take next, and what is told of them."""
