"""`python -m spfgen` is the command `spfgen`."""

from spfgen.cli import main

if __name__ == "__main__":
    main()
