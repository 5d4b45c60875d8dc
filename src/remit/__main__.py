"""Makes `python -m remit` the same as `remit`."""

from remit.cli import main

if __name__ == "__main__":
    main(prog_name="remit")
