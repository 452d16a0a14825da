"""`drumlin dump-log`: what the files of a log directory say, and what is wrong with them."""
