"""Tries to make lsmkv lose data or lie: ``python -m torture`` (see :mod:`torture.framework.part`)."""
