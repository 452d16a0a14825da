"""What handlers of several APIs have in common. A handler imports no other handler."""
