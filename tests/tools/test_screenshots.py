"""The pictures of the page are of the page as it is."""

from __future__ import annotations

import json

from tools import screenshots

TAKE_THEM = "the page changed: look at it, and run python -m tools.screenshots"


def test_the_pictures_are_of_the_present_page() -> None:
    stored = json.loads((screenshots.FOLDER / screenshots.RECORD).read_text("utf-8"))
    assert stored == screenshots.record(screenshots.FOLDER), TAKE_THEM


def test_every_picture_in_the_folder_is_taken_by_the_tool() -> None:
    assert {path.stem for path in screenshots.FOLDER.glob("*.png")} == {*screenshots.PICTURES}
