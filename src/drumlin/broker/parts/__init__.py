"""What a part of the broker may use of the whole, so that none has to know `Broker`."""
