"""What may come on a socket: any bytes. Brokers and clients are fed them, with little memory."""
