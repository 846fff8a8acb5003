"""Tables (SSTables): immutable files of sorted entries, written once from entries in order.

``format`` is the shape of the file, ``block`` that of a data block.  ``writer`` writes a table and
``multi_writer`` as many as a flush or compaction needs.  ``reader`` answers lookups with the help of
``index`` and ``table_filters``; ``read_ahead`` reads many blocks for scans and compactions.
"""
