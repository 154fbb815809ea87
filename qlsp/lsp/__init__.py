"""The language server: an event loop that owns the documents, and a worker process that analyses them."""
