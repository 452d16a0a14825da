"""`drumlin groups`: groups and their offsets."""
