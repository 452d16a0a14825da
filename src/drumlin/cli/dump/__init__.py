"""`drumlin dump-log`: print the files of a log directory and find what is wrong with them."""
