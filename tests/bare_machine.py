"""A machine with nothing on it, for tools that look for programs."""

import subprocess
import sys
from pathlib import Path


class Machine:
    """Has a PATH and a cache of its own, with nothing in them but what a test puts there."""

    def __init__(self, folder: Path, tool: Path | str) -> None:
        self.path = folder / "bin"
        self.cache = folder / "cache"
        self.path.mkdir()
        self._tool = tool

    def has(self, program: Path, script: str = "exit 0") -> Path:
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
        program.chmod(0o755)
        return program

    def ask(self, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, self._tool, *arguments],
            env={"PATH": str(self.path), "TONNAGE_CACHE": str(self.cache), **environment},
            capture_output=True,
            text=True,
        )
