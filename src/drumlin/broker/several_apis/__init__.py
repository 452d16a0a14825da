"""The common parts of handlers of several APIs. A handler imports no other handler."""
