"""The broker from start to stop. It is assembled here, and none of its parts imports this."""
