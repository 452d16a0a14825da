"""The declaration of commands, the parsing of input, and output. Contacts no cluster."""
