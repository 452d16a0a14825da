"""Every API asked by users with each single right, and with rules of every form."""
