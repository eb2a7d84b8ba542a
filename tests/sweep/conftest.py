"""Clusters as files, as for other commands."""

from tests.cli.conftest import written as written
