"""Tables (SSTables): immutable files of sorted entries.

``format`` is the shape of the file, ``block`` that of a data block.  ``writer`` writes a table,
``multi_writer`` those of a flush or compaction.  ``reader`` answers lookups with ``index`` and
``table_filters``; ``read_ahead`` reads many blocks for scans and compactions.
"""
