"""Code shared by groups of all kinds. It imports no kind of group."""
