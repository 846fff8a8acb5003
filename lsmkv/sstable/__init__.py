"""One table file's bytes: blocks, index, writer, reader.

A table (SSTable) is written once, from entries in order, and never changed.  ``layout`` holds the
shape of the file, ``block`` that of a data block's payload, ``index`` the part that is kept in
memory; ``writer`` and ``reader`` are the two ends of it.
"""
