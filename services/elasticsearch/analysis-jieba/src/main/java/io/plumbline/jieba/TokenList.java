package io.plumbline.jieba;

import java.util.Arrays;

/** Tokens of one piece of text, as places in its characters; made once and used again for the next piece. */
final class TokenList {
  /**
   * Longest token in UTF-16 units; what is longer, such as an endless run of letters, is cut up. In UTF-8 it stays
   * below Lucene's limit for a term (32,766 bytes), with room for what token filters add.
   */
  static final int MAX_TOKEN_LENGTH = 8192;

  int[] starts = new int[64];
  int[] ends = new int[64];
  int[] increments = new int[64];
  int size;

  void clear() {
    size = 0;
  }

  void add(int start, int end, int increment) {
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
  void addWord(char[] text, int start, int end) {
    if (!hasLetterOrNumber(text, start, end)) {
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

  private static boolean hasLetterOrNumber(char[] text, int start, int end) {
    for (int i = start; i < end; i++) {
      if (CharKind.isLetterOrNumber(text, i, end)) {
        return true;
      }
    }
    return false;
  }
}
