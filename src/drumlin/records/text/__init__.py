"""Records as lines of text, by a kernel, without Arrow: what a terminal or a pipe gets."""
