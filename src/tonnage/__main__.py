"""`python -m tonnage`: the command line."""

from tonnage.cli.app import main

main()
