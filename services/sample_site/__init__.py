"""The sample site: some 70 pages on tea in pages/, and the server that shows them on loopback.

The pages are kept by hand. They are meant to be as uneven as real ones: facts stand in lists, tables and plain lines,
one page is in GBK and one in Big5 (edit those in their own charset), one is drawn by a script, one link is dead, one
address has moved, and one folder is closed by robots.txt. A new page is linked from its list and added to sitemap.xml.
"""
