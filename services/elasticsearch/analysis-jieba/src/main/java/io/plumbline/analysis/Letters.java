package io.plumbline.analysis;

/** What makes a token worth finding: a letter or a number, that is, a code point of the Unicode categories L and N. */
public final class Letters {
  private static final boolean[] IS_LETTER = new boolean[Character.MAX_VALUE + 1];

  static {
    for (int c = 0; c < IS_LETTER.length; c++) {
      IS_LETTER[c] = isLetter(c);
    }
  }

  private Letters() {}

  /** Whether there is a letter or a number among the code points. */
  public static boolean isIn(char[] text, int start, int end) {
    for (int i = start; i < end; i++) {
      if (IS_LETTER[text[i]]) {
        return true;
      }
      if (Character.isHighSurrogate(text[i]) && isLetter(Character.codePointAt(text, i, end))) {
        return true;
      }
    }
    return false;
  }

  public static boolean isLetter(int codePoint) {
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
}
