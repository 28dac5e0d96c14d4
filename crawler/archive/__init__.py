"""The archive: every version of every page as WARC 1.1 records, and the rows that point at them."""
