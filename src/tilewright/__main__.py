"""`python -m tilewright`: the commands of `tilewright`."""

from .cli.main import main

main(prog_name="tilewright")
