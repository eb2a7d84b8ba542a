"""`python -m tonnage`: the command line."""

from tonnage.cli import main

main()
