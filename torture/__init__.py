"""Torture tests of lsmkv: ``python -m torture`` (see :mod:`torture.framework.part`)."""
