"""Every method of a client for administrators, one after the other, on any broker."""
