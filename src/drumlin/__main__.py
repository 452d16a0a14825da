"""`python -m drumlin`: the same as the console command."""

from drumlin.cli.main import main

if __name__ == "__main__":
    main()
