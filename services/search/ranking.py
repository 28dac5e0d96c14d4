"""The weights of ranking. Each names the measurement that chose it; `bench/relevance` repeats them."""

from __future__ import annotations

WORDS = 1.0
BIGRAMS = 1.0
CHARACTERS = 0.5
"""Words + bigrams + half the characters: MRR@10 0.9851 (cmrc-dev) and 0.9707 (drcd-dev) where words alone have 0.9819
and 0.9578 (BM25 outside Elasticsearch, see bench/relevance)."""

TITLE = 1.0
"""Of a field of the title against the same field of the body."""
ANCHORS = 1.0
PHRASE = 1.0
PHRASE_SLOP = 8
TITLE_AS_TYPED = 2.0
"""The whole query stands in the title."""
EXACT_VALUE = 20.0
"""The query is the page's address, or an e-mail address on it."""

LONG_CHUNK_CHARS = 9
"""What is typed together and longer than this is a sentence or question, no name."""
MIN_MATCH_IN_NAME = "3<60%"
"""Of words typed together up to three must all be there, of more three in five."""
MIN_MATCH_IN_QUESTION = "25%"
"""Of the words of a question one in four must be there; the ranking does the rest. Answers rarely repeat a question:
60 % cost 0.03 of R@10 on cmrc-dev."""
MIN_CHUNKS = "1<-1 4<60%"
"""Of words typed apart one may be missing, of more than four two in five."""

BM25_K1 = 1.2
BM25_B = 0.75
"""Elasticsearch's defaults, which es-mappings keeps."""
