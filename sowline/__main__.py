"""`python -m sowline` is the `sowline` command."""

from sowline.cli import main

if __name__ == "__main__":
    main()
