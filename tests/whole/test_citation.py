"""How to cite the package."""

from __future__ import annotations

from pathlib import Path

import yaml

import lsmkv


def test_the_citation_file_is_of_this_version() -> None:
    text = Path(__file__).parents[2].joinpath("CITATION.cff").read_text("utf-8")
    cited = yaml.safe_load(text)
    assert {"cff-version", "message", "title", "authors"} <= cited.keys()
    assert cited["version"] == lsmkv.__version__
