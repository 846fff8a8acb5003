"""What all reports share: generated sections of documents, and the machine."""
