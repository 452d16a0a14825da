"""The declaration of commands, what a person types, and what is printed. Asks no cluster."""
