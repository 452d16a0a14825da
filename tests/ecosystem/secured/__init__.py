"""Programs that log in, to a server that is secured by one word."""
