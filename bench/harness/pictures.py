"""Charts as pictures beside a Markdown document."""

from __future__ import annotations

import argparse
import os
import shutil
from typing import Final

FOLDER: Final = "pictures"


def link(name: str, text: str) -> str:
    """The Markdown that shows the picture of a chart; ``text`` is for readers who cannot see it."""
    return f"![{text}]({FOLDER}/{name}.svg)"


def copy_beside(given: argparse.Namespace, name: str) -> list[str]:
    """With ``--into``: copy a chart of ``--out`` beside the document, and return its path."""
    if not given.into:
        return []
    folder = os.path.join(os.path.dirname(given.into), FOLDER)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{name}.svg")
    shutil.copyfile(os.path.join(given.out, f"{name}.svg"), path)
    return [path]
