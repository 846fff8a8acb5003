"""The write-ahead log: batches, records, group commit, replay.  May import memtable and below."""
