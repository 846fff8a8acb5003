"""Tables (SSTables): immutable files of sorted entries.

``format`` is the shape of the file, ``block`` that of a data block.  ``writer`` fills the blocks of a
``table_file``, ``multi_writer`` writes the tables of a flush or compaction.  ``reader`` answers lookups
with ``index`` and ``table_filters``, whose bits come from a ``filter_section``; ``read_ahead`` reads
many blocks for scans and compactions.
"""
