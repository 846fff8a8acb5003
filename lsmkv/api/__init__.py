"""What programs call: stores, snapshots, cursors, batches and views.  May import any room but cli."""
