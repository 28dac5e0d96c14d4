"""Search: a reader's words in, a page of results out. All but `search.py` are pure functions on data."""
