package io.plumbline.jieba;

/**
 * What a character is to jieba 0.42.1, whose regular expressions are {@code re_han_default}, {@code re_skip_default} and
 * {@code re_eng}.
 *
 * <p>One table for the whole BMP. No supplementary character can stand in a block.
 */
final class CharKind {
  /** Neither in a block, nor white space, nor a letter or digit. */
  static final byte OTHER = 0;

  /** Python's {@code \s}. */
  static final byte SPACE = 1;

  /** A letter or a number outside a block: a word of its own. */
  static final byte LETTER = 2;

  /** Half of a supplementary character. */
  static final byte SURROGATE = 3;

  /** {@code + # & . _ % -}: may stand in a block, is no letter. */
  static final byte BLOCK_SYMBOL = 4;

  /** {@code [a-zA-Z0-9]}. */
  static final byte BLOCK_LATIN = 5;

  /** U+4E00 to U+9FD5. */
  static final byte BLOCK_HAN = 6;

  static final char FIRST_HAN = '\u4E00';
  static final char LAST_HAN = '\u9FD5';

  private static final byte[] KINDS = new byte[Character.MAX_VALUE + 1];

  static {
    for (int c = 0; c < KINDS.length; c++) {
      KINDS[c] = kindOf((char) c);
    }
  }

  private CharKind() {}

  static byte of(char c) {
    return KINDS[c];
  }

  static boolean isInBlock(char c) {
    return KINDS[c] >= BLOCK_SYMBOL;
  }

  static boolean isLatin(char c) {
    return KINDS[c] == BLOCK_LATIN;
  }

  static boolean isHan(char c) {
    return KINDS[c] == BLOCK_HAN;
  }

  /** Whether a code point is a letter or a number (Unicode categories L and N). */
  static boolean isLetterOrNumber(int codePoint) {
    return switch (Character.getType(codePoint)) {
      case Character.UPPERCASE_LETTER,
          Character.LOWERCASE_LETTER,
          Character.TITLECASE_LETTER,
          Character.MODIFIER_LETTER,
          Character.OTHER_LETTER,
          Character.DECIMAL_DIGIT_NUMBER,
          Character.LETTER_NUMBER,
          Character.OTHER_NUMBER ->
          true;
      default -> false;
    };
  }

  /** Whether the code point at a place is a letter or a number. */
  static boolean isLetterOrNumber(char[] text, int at, int limit) {
    return switch (KINDS[text[at]]) {
      case LETTER, BLOCK_LATIN, BLOCK_HAN -> true;
      case SURROGATE -> isLetterOrNumber(Character.codePointAt(text, at, limit));
      default -> false;
    };
  }

  private static byte kindOf(char c) {
    if (c >= FIRST_HAN && c <= LAST_HAN) {
      return BLOCK_HAN;
    }
    if (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9') {
      return BLOCK_LATIN;
    }
    if ("+#&._%-".indexOf(c) >= 0) {
      return BLOCK_SYMBOL;
    }
    if (Character.isSurrogate(c)) {
      return SURROGATE;
    }
    if (isPythonSpace(c)) {
      return SPACE;
    }
    return isLetterOrNumber(c) ? LETTER : OTHER;
  }

  private static boolean isPythonSpace(char c) {
    return Character.isSpaceChar(c) || Character.isWhitespace(c) || c == '\u0085';
  }
}
