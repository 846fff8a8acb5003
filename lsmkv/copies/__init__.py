"""Copies of whole stores: checkpoints and backups.  May import what is below the engine's floor."""
