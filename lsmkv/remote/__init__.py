"""Stores in object storage (S3, GCS, Azure): publishing, and reading what is published."""
