"""Generated sections of documents, and the machine that results depend on."""
