"""How commands are declared, read what a person types, and print. Asks no cluster."""
