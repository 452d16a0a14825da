"""Drumlins as users start them, alone or several, and brokers that follow a script."""
