"""What every report begins with: its headline, above the first chart."""

from __future__ import annotations

from bench.harness.story import HEADLINE_WORDS, Story


def assert_headline(story: Story) -> None:
    """Fail unless there are charts, below a short sentence with a number."""
    assert story.charts
    assert any(letter.isdigit() for letter in story.headline), story.headline
    assert len(story.headline.split()) <= HEADLINE_WORDS, story.headline
