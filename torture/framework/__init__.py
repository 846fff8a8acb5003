"""The framework of the torture run: parts, trials, reports, and helpers of several parts."""
