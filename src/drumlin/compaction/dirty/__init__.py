"""What of a log can be cleaned, and how far it has been. Pure, but for the notes of a round."""
