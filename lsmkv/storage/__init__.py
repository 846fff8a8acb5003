"""The file system: files, names of files, locks.  May import errors and counters."""
