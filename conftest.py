"""What every test folder shares: the golden files, and how long a property test may take."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.golden_support"]

# No test asserts a wall-clock time: a slow machine is no defect.
settings.register_profile("lsmkv", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lsmkv")
