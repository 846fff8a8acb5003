"""The file system: files, their names, locks.  Only modules of this room touch files."""
