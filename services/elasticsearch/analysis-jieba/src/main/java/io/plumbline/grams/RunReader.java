package io.plumbline.grams;

import io.plumbline.analysis.Letters;
import io.plumbline.analysis.PieceReader;
import java.io.IOException;

/**
 * Reads runs: of Chinese characters (Han, kana, Hangul, Bopomofo), which stand without spaces, or of other letters and
 * numbers. A mark (Unicode category M) belongs to the character before it.
 */
final class RunReader extends PieceReader {
  private enum Kind {
    CHINESE,
    LETTERS,
    MARK,
    OTHER
  }

  private static final Kind[] KINDS = new Kind[Character.MAX_VALUE + 1];

  static {
    for (int c = 0; c < KINDS.length; c++) {
      KINDS[c] = kindOf(c);
    }
  }

  private boolean isChinese;

  RunReader() {
    super(2);
  }

  boolean isChinese() {
    return isChinese;
  }

  /** Where a character and its marks end. */
  int characterEnd(int from) {
    int at = from;
    do {
      at += Character.charCount(Character.codePointAt(text, at, end));
    } while (at < end && kind(Character.codePointAt(text, at, end)) == Kind.MARK);
    return at;
  }

  @Override
  protected boolean readPiece() throws IOException {
    Kind kind = readCodePoint();
    if (kind == Kind.MARK || kind == Kind.OTHER) {
      return false;
    }
    isChinese = kind == Kind.CHINESE;
    while (hasMore()) {
      Kind next = kind(codePoint());
      if (next != kind && next != Kind.MARK) {
        break;
      }
      readCodePoint();
    }
    return true;
  }

  private Kind readCodePoint() throws IOException {
    int codePoint = codePoint();
    end += Character.charCount(codePoint);
    return kind(codePoint);
  }

  private static Kind kind(int codePoint) {
    return codePoint < KINDS.length ? KINDS[codePoint] : kindOf(codePoint);
  }

  private static Kind kindOf(int codePoint) {
    if (isMark(codePoint)) {
      return Kind.MARK;
    }
    if (!Letters.isLetter(codePoint)) {
      return Kind.OTHER;
    }
    return isChinese(codePoint) ? Kind.CHINESE : Kind.LETTERS;
  }

  private static boolean isMark(int codePoint) {
    return switch (Character.getType(codePoint)) {
      case Character.NON_SPACING_MARK, Character.COMBINING_SPACING_MARK, Character.ENCLOSING_MARK -> true;
      default -> false;
    };
  }

  private static boolean isChinese(int codePoint) {
    return switch (Character.UnicodeScript.of(codePoint)) {
      case HAN, HIRAGANA, KATAKANA, HANGUL, BOPOMOFO -> true;
      // The signs that lengthen or voice a kana belong to no one script.
      default -> "ーｰﾞﾟ".indexOf(codePoint) >= 0;
    };
  }
}
