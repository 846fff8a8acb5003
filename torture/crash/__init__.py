"""Parts that crash a store: power failures, failing calls, full disks."""
