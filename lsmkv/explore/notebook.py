"""The page of a store as notebooks draw it: :meth:`lsmkv.DB.explore` makes one."""

from __future__ import annotations

import html
from typing import Final

from lsmkv import DB
from lsmkv.explore.exploration import Detail
from lsmkv.explore.page import file_page
from lsmkv.explore.survey import Extent

HEIGHT_PX: Final = 720
_DETAIL: Final = Detail(
    extent=Extent(cells=1500, tables=200),
    present=40,
    absent=60,
    false_positives=10,
    filters=200,
    steps=500,
)
"""Less than in a file: a notebook keeps its outputs."""


class NotebookPage:
    """A page in a frame, from which its script reaches nothing outside.

    Attributes:
        html: the page, as a file would hold it.
    """

    def __init__(self, page: str) -> None:
        self.html = page

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" sandbox="allow-scripts" '
            f'title="lsmkv explore" style="width:100%;height:{HEIGHT_PX}px;border:0"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<a page of lsmkv explore, {len(self.html):,} characters; notebooks draw it>"


def notebook_page(db: DB) -> NotebookPage:
    """The page of the store of ``db``, read anew from its files."""
    return NotebookPage(file_page(db.path, _DETAIL))
