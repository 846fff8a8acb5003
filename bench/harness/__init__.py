"""What every experiment shares: the sweep over configurations, the files it writes, the report."""
