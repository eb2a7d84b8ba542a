"""Running something in the file system of an image, without a container engine."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class ImageError(Exception):
    """What went wrong, in one line."""


def run_inside(
    root: Path, command: Sequence[str], *, env: dict[str, str], user: str = "", **more: Any
) -> subprocess.CompletedProcess[str]:
    """In the file system of an image: chroot, in a user namespace of our own unless we are root."""
    enter = [_program("chroot"), *([f"--userspec={user}"] if user else []), str(root)]
    if os.geteuid() != 0:
        enter = [_program("unshare"), "--user", "--map-root-user", "--map-auto", *enter]
    try:
        return subprocess.run([*enter, *command], env=env, check=True, text=True, **more)
    except subprocess.CalledProcessError as error:
        raise ImageError(
            f"`{' '.join(command[:4])}` in the image ended with {error.returncode}: {error.stderr}"
        ) from error


def _program(name: str) -> str:
    """Its path: where administrators' programs are is not on everybody's PATH."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if found is None:
        raise ImageError(f"there is no {name} here")
    return found
