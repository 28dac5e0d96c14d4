package io.plumbline.jieba;

/** The words that a {@link Segmenter} knows, with their frequencies: jieba's {@code FREQ}. */
interface Lexicon {
  /** Length of the longest word. */
  int longestWord();

  /**
   * Finds the words that begin at {@code from} and end no later than {@code to}, shortest first: one entry of jieba's
   * {@code DAG}. If there is none, the single character stands in.
   */
  void findWords(char[] text, int from, int to, Matches found);

  /** Whether this is a word, that is, in the lexicon with a frequency that is not zero. */
  boolean isWord(char[] text, int from, int to);

  /** Whether the HMM must not make this word: jieba's {@code Force_Split_Words}. */
  boolean isForbidden(char[] text, int from, int to);

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
