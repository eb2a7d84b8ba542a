"""The `tonnage` command: arguments and printing, nothing else.

Each command has a module here; `app` knows their names and loads the one that was asked for.
"""

from tonnage.cli.app import main

__all__ = ["main"]
