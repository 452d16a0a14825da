"""Which brokers there are: this one's registration, the others, and who is the controller."""
