package io.plumbline.analysis;

import java.util.Arrays;

/** Tokens of one piece of text, as places in its characters; made once and used again for the next piece. */
public final class TokenList {
  /**
   * Longest token in UTF-16 units; what is longer, such as an endless run of letters, is cut up. In UTF-8 it stays
   * below Lucene's limit for a term (32,766 bytes), with room for what token filters add.
   */
  public static final int MAX_TOKEN_LENGTH = 8192;

  private int[] starts = new int[64];
  private int[] ends = new int[64];
  private int[] increments = new int[64];
  private int size;

  public int size() {
    return size;
  }

  public int start(int token) {
    return starts[token];
  }

  public int end(int token) {
    return ends[token];
  }

  /** How many positions the token comes after the one before it. */
  public int increment(int token) {
    return increments[token];
  }

  public void clear() {
    size = 0;
  }

  public void truncate(int newSize) {
    size = newSize;
  }

  public void add(int start, int end, int increment) {
    if (size == starts.length) {
      starts = Arrays.copyOf(starts, 2 * size);
      ends = Arrays.copyOf(ends, 2 * size);
      increments = Arrays.copyOf(increments, 2 * size);
    }
    starts[size] = start;
    ends[size] = end;
    increments[size] = increment;
    size++;
  }

  /** Adds a word at the next position, unless it has neither letter nor number. */
  public void addWord(char[] text, int start, int end) {
    if (!Letters.isIn(text, start, end)) {
      return;
    }
    int rest = start;
    while (end - rest > MAX_TOKEN_LENGTH) {
      int cut = rest + MAX_TOKEN_LENGTH;
      cut -= Character.isHighSurrogate(text[cut - 1]) ? 1 : 0;
      add(rest, cut, 1);
      rest = cut;
    }
    add(rest, end, 1);
  }
}
