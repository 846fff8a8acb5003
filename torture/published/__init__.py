"""Published stores behind a proxy that fails and lies, with caches on disk and processes that die."""
