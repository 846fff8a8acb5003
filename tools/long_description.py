"""The README as a package index shows it."""

from __future__ import annotations

import re
from pathlib import Path


def long_description() -> str:
    """That of the working directory."""
    return for_an_index(Path("README.md").read_text("utf-8"))


def for_an_index(readme: str) -> str:
    """``readme`` for a package index, where links to the repository's files lead nowhere.

    Pictures go; of a link its text stays, and the path, which the source distribution has.
    """
    without_pictures = re.sub(r"!\[[^]]*\]\((?!\w+:)[^)]*\)\n*", "", readme)
    return re.sub(
        r"\[([^]]+)\]\((?!\w+:)([^)#]+)[^)]*\)",
        lambda link: link[1] if link[2] in link[1] else f"{link[1]} (`{link[2]}`)",
        without_pictures,
    )
