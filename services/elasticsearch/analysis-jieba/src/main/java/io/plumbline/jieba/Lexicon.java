package io.plumbline.jieba;

/** The words that a {@link Segmenter} knows, with their frequencies: jieba's {@code FREQ}. */
interface Lexicon {
  /** The frequency of what is neither a word nor the beginning of one. */
  long UNKNOWN = -1;

  /** Length of the longest word. */
  int longestWord();

  /**
   * Finds the words that begin at {@code from} and end no later than {@code to}, shortest first: one entry of jieba's
   * {@code DAG}. If there is none, the single character stands in.
   */
  void findWords(char[] text, int from, int to, Matches found);

  /**
   * Finds the best way through a text: {@code calc}. From the last character back, the word to go on with is the one with the
   * best score to the end; of equals the longest.
   */
  default void findRoute(char[] text, int from, int to, Route route, Matches found) {
    route.begin(from, to);
    for (int i = to - 1; i >= from; i--) {
      findWords(text, i, to, found);
      double best = Double.NEGATIVE_INFINITY;
      int bestEnd = 0;
      for (int j = 0; j < found.size; j++) {
        double score = found.weights[j] + route.scores[found.ends[j] - from];
        if (score >= best) {
          best = score;
          bestEnd = found.ends[j];
        }
      }
      route.scores[i - from] = best;
      route.ends[i - from] = bestEnd;
    }
  }

  /** The frequency of a word, 0 for what only begins one, or {@link #UNKNOWN}. */
  long frequency(char[] text, int from, int to);

  /** Whether the HMM must not make this word: jieba's {@code Force_Split_Words}. */
  boolean isForbidden(char[] text, int from, int to);

  default boolean isWord(char[] text, int from, int to) {
    return frequency(text, from, to) > 0;
  }

  /** Words that begin at one place: where each ends, and its weight, the logarithm of its share of all words. */
  final class Matches {
    final int[] ends;
    final double[] weights;
    int size;

    Matches(int capacity) {
      ends = new int[capacity];
      weights = new double[capacity];
    }

    void add(int end, double weight) {
      ends[size] = end;
      weights[size] = weight;
      size++;
    }
  }

  /** The best way from each character of a text to its end: how good it is, and where its first word ends. */
  final class Route {
    double[] scores = new double[256];
    int[] ends = new int[256];
    private int from;

    void begin(int newFrom, int to) {
      from = newFrom;
      int length = to - from;
      if (scores.length <= length) {
        scores = new double[length + 1];
        ends = new int[length + 1];
      }
      scores[length] = 0;
    }

    int endOfWord(int start) {
      return ends[start - from];
    }
  }
}
