package io.plumbline.jieba;

/**
 * Cuts a block into words exactly as jieba 0.42.1 does. A block is a run of the characters of jieba's {@code
 * re_han_default}; {@link PieceReader} finds it. Not for several threads at once.
 */
final class Segmenter {
  private final Lexicon lexicon;
  private final Mode mode;
  private final NewWords newWords;
  private final Lexicon.Matches found;
  private final TokenList words = new TokenList();

  /** The best way from each character of the block to its end: how good it is, and where its first word ends. */
  private double[] scores = new double[256];

  private int[] nextEnds = new int[256];

  /**
   * @param hmm whether characters that the dictionary left single are joined by the {@link HiddenMarkovModel}
   */
  Segmenter(Lexicon lexicon, Mode mode, boolean hmm) {
    this.lexicon = lexicon;
    this.mode = mode;
    newWords = hmm ? new NewWords(lexicon) : null;
    found = new Lexicon.Matches(Math.max(1, lexicon.longestWord()));
  }

  /** Adds the tokens of a block, sorted by start and end. */
  void cut(char[] text, int from, int to, TokenList tokens) {
    switch (mode) {
      case SEARCH -> cutWords(text, from, to, tokens);
      case INDEX -> {
        words.clear();
        cutWords(text, from, to, words);
        addWithSubWords(text, tokens);
      }
    }
  }

  /** {@code cut}. */
  private void cutWords(char[] text, int from, int to, TokenList tokens) {
    findRoute(text, from, to);
    if (newWords == null) {
      cutByDictionary(text, from, to, tokens);
    } else {
      cutByDictionaryAndModel(text, from, to, tokens);
    }
  }

  /** {@code calc}: from the last character back, the best word to go on with; of equals the longest. */
  private void findRoute(char[] text, int from, int to) {
    int length = to - from;
    if (scores.length <= length) {
      scores = new double[length + 1];
      nextEnds = new int[length + 1];
    }
    scores[length] = 0;
    for (int i = to - 1; i >= from; i--) {
      lexicon.findWords(text, i, to, found);
      double best = Double.NEGATIVE_INFINITY;
      int bestEnd = 0;
      for (int j = 0; j < found.size; j++) {
        double score = found.weights[j] + scores[found.ends[j] - from];
        if (score >= best) {
          best = score;
          bestEnd = found.ends[j];
        }
      }
      scores[i - from] = best;
      nextEnds[i - from] = bestEnd;
    }
  }

  /** {@code __cut_DAG_NO_HMM}: single letters and digits in a row make a word. */
  private void cutByDictionary(char[] text, int from, int to, TokenList tokens) {
    int run = from;
    int start = from;
    while (start < to) {
      int end = nextEnds[start - from];
      if (end - start > 1 || !CharKind.isLatin(text[start])) {
        tokens.addWord(text, run, start);
        tokens.addWord(text, start, end);
        run = end;
      }
      start = end;
    }
    tokens.addWord(text, run, to);
  }

  /** {@code __cut_DAG}: single characters in a row go to the model. */
  private void cutByDictionaryAndModel(char[] text, int from, int to, TokenList tokens) {
    int run = from;
    int start = from;
    while (start < to) {
      int end = nextEnds[start - from];
      if (end - start > 1) {
        cutRun(text, run, start, tokens);
        tokens.addWord(text, start, end);
        run = end;
      }
      start = end;
    }
    cutRun(text, run, to, tokens);
  }

  private void cutRun(char[] text, int from, int to, TokenList tokens) {
    if (to - from > 1 && !lexicon.isWord(text, from, to)) {
      newWords.cut(text, from, to, tokens);
      return;
    }
    for (int i = from; i < to; i++) {
      tokens.addWord(text, i, i + 1);
    }
  }

  /** {@code cut_for_search}: a sub-word takes the position of its word, whichever of them comes first. */
  private void addWithSubWords(char[] text, TokenList tokens) {
    for (int i = 0; i < words.size; i++) {
      int start = words.starts[i];
      int end = words.ends[i];
      int increment = 1;
      for (int at = start; at + 2 <= end; at++) {
        for (int length = 2; length <= 3; length++) {
          if (length < end - start && at + length <= end && lexicon.isWord(text, at, at + length)) {
            tokens.add(at, at + length, increment);
            increment = 0;
          }
        }
        if (at == start) {
          tokens.add(start, end, increment);
          increment = 0;
        }
      }
      if (end - start == 1) {
        tokens.add(start, end, 1);
      }
    }
  }
}
