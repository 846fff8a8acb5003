"""The experiments.  Each imports the harness, engines and workloads, and no other experiment."""
