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
}
