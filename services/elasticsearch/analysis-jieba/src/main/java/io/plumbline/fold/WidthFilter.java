package io.plumbline.fold;

import java.io.Reader;
import java.text.Normalizer;

/**
 * Unicode's NFKC: full width becomes half width ({@code Ａ} to {@code A}), half-width kana whole, compatibility forms plain
 * ({@code ㎞} to {@code km}, {@code ①} to {@code 1}). Besides, characters that show nothing and would part a word are
 * dropped: soft hyphens, zero-width spaces and joiners, variation selectors.
 *
 * <p>A group is a code point with all that may combine with it; to normalize group by group is to normalize the text.
 */
final class WidthFilter extends FoldFilter {
  private static final char[] TABLE = new char[Character.MAX_VALUE + 1];
  private static final boolean[] JOINS = new boolean[Character.MAX_VALUE + 1];

  static {
    for (int c = 0; c < TABLE.length; c++) {
      String normalized = normalize(Character.toString(c));
      JOINS[c] = joins(normalized.codePointAt(0));
      boolean isSimple = normalized.length() == 1 && !JOINS[c] && !Character.isSurrogate((char) c) && !isInvisible(c);
      TABLE[c] = isSimple ? normalized.charAt(0) : BY_GROUP;
    }
  }

  WidthFilter(Reader input) {
    super(input, TABLE);
  }

  @Override
  boolean joinsPrevious(char c) {
    return JOINS[c];
  }

  @Override
  int foldGroup(char[] text, int from, int to) {
    int end = groupEnd(text, from, Math.min(to, from + MAX_GROUP));
    String group = new String(text, from, end - from);
    String normalized = normalize(withoutInvisible(group));
    if (normalized.equals(group)) {
      keep(from, end - from);
    } else {
      replace(end - from, normalized);
    }
    return end;
  }

  private static int groupEnd(char[] text, int from, int to) {
    int end = from + Character.charCount(Character.codePointAt(text, from, to));
    while (end < to) {
      int codePoint = Character.codePointAt(text, end, to);
      if (codePoint < JOINS.length ? !JOINS[codePoint] : !joins(codePoint)) {
        break;
      }
      end += Character.charCount(codePoint);
    }
    return end;
  }

  /** Whether a code point may combine with the one before it: a mark, or a Hangul vowel or final consonant. */
  private static boolean joins(int codePoint) {
    return switch (Character.getType(codePoint)) {
      case Character.NON_SPACING_MARK, Character.COMBINING_SPACING_MARK, Character.ENCLOSING_MARK -> true;
      default -> codePoint >= 0x1160 && codePoint <= 0x11FF || codePoint >= 0xD7B0 && codePoint <= 0xD7FF;
    };
  }

  private static String withoutInvisible(String group) {
    if (group.codePoints().noneMatch(WidthFilter::isInvisible)) {
      return group;
    }
    return group
        .codePoints()
        .filter(codePoint -> !isInvisible(codePoint))
        .collect(StringBuilder::new, StringBuilder::appendCodePoint, StringBuilder::append)
        .toString();
  }

  private static boolean isInvisible(int codePoint) {
    return codePoint == 0xAD // soft hyphen
        || codePoint >= 0x200B && codePoint <= 0x200D // zero-width space, non-joiner, joiner
        || codePoint == 0x2060 // word joiner
        || codePoint == 0xFEFF // zero-width no-break space
        || codePoint >= 0xFE00 && codePoint <= 0xFE0F // variation selectors
        || codePoint >= 0xE0100 && codePoint <= 0xE01EF;
  }

  private static String normalize(String text) {
    return Normalizer.normalize(text, Normalizer.Form.NFKC);
  }
}
