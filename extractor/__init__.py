"""Capture to document: what a page says, apart from how it was fetched. Knows nothing of the services."""
