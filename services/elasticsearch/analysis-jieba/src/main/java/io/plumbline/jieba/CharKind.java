package io.plumbline.jieba;

/**
 * What a UTF-16 unit is to the regular expressions of jieba 0.42.1: {@code re_han_default}, {@code re_skip_default}, {@code
 * re_eng}. No supplementary character can stand in a block.
 */
final class CharKind {
  static final char FIRST_HAN = '\u4E00';
  static final char LAST_HAN = '\u9FD5';

  /** Not in a block, and no white space. */
  private static final byte BETWEEN = 0;

  /** Python's {@code \s}. */
  private static final byte SPACE = 1;

  /** {@code + # & . _ % -}: may stand in a block, is no letter. */
  private static final byte SYMBOL = 2;

  /** {@code [a-zA-Z0-9]}. */
  private static final byte LATIN = 3;

  /** U+4E00 to U+9FD5. */
  private static final byte HAN = 4;

  private static final byte[] KINDS = new byte[Character.MAX_VALUE + 1];

  static {
    for (int c = 0; c < KINDS.length; c++) {
      KINDS[c] = kindOf((char) c);
    }
  }

  private CharKind() {}

  static boolean isBetween(char c) {
    return KINDS[c] == BETWEEN;
  }

  static boolean isSpace(char c) {
    return KINDS[c] == SPACE;
  }

  static boolean isInBlock(char c) {
    return KINDS[c] >= SYMBOL;
  }

  static boolean isLatin(char c) {
    return KINDS[c] == LATIN;
  }

  static boolean isHan(char c) {
    return KINDS[c] == HAN;
  }

  private static byte kindOf(char c) {
    if (c >= FIRST_HAN && c <= LAST_HAN) {
      return HAN;
    }
    if (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9') {
      return LATIN;
    }
    if ("+#&._%-".indexOf(c) >= 0) {
      return SYMBOL;
    }
    return Character.isSpaceChar(c) || Character.isWhitespace(c) || c == '\u0085' ? SPACE : BETWEEN;
  }
}
