"""`python -m remit` is `remit`."""

from remit.cli import main

if __name__ == "__main__":
    main(prog_name="remit")
