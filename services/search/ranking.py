"""The weights of ranking. Each names the measurement that chose it; `bench/relevance` repeats them.

BM25 itself stands in es-mappings/pages.json: k1 = 1.0 and b = 0.6 rather than the default 1.2 and 0.75 give +0.0012
MRR@10 on drcd-dev and cost cmrc-dev nothing.
"""

from __future__ import annotations

WORDS = 1.0
BIGRAMS = 1.0
CHARACTERS = 0.5
"""Words + bigrams + half the characters: MRR@10 0.9851 (cmrc-dev) and 0.9707 (drcd-dev) where words alone have 0.9819
and 0.9578 (BM25 outside Elasticsearch, see bench/relevance)."""

TITLE = 0.3
"""Of a field of the title against the same field of the body. More helps cmrc-dev, whose documents have titles of their
own (1.0: +0.0004), and costs drcd-dev, where many share one (1.0: -0.0050)."""
ANCHORS = 1.0
TITLE_AS_TYPED = 2.0
"""The whole query stands in the title."""
CLOSENESS_WINDOW = 100
"""So many of the best pages are ordered anew by closeness: R@100 is 1.0 on both sets."""
RUN = 0.25
"""For each four characters in a row."""
NEAR = 0.6
NEAR_WORDS = 4
NEAR_SLOP = 50
"""For each two of five words in a row, the more the closer they stand. With RUN: +0.0040 on drcd-dev."""
EXACT_VALUE = 20.0
"""The query is the page's address, or an e-mail address on it."""

LONG_CHUNK_CHARS = 9
"""What is typed together and longer than this is a sentence or question, no name."""
MIN_MATCH_IN_NAME = "3<60%"
"""Of words typed together up to three must all be there, of more three in five."""
MIN_MATCH_IN_QUESTION = "10%"
"""Of the words of a question one in ten must be there, at least one; the ranking does the rest. Answers rarely repeat
a question: 60 % cost 0.03 of R@10 on cmrc-dev, 25 % 0.01 on drcd-dev."""
MIN_CHUNKS = "1<-1 4<60%"
"""Of words typed apart one may be missing, of more than four two in five."""
