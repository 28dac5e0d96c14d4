package io.plumbline.fold;

import java.io.Reader;

/**
 * Traditional characters become simplified ones as by OpenCC's {@code t2s}: from left to right the longest phrase of its
 * tables, or else the character. Each code point becomes one code point.
 */
final class ScriptFilter extends FoldFilter {
  private final ScriptTable table = ScriptTable.shared();

  ScriptFilter(Reader input) {
    super(input, ScriptTable.shared().characters());
  }

  @Override
  boolean joinsPrevious(char c) {
    return false;
  }

  @Override
  int foldGroup(char[] text, int from, int to) {
    String simplified = table.longestMatch(text, from, to);
    if (simplified.isEmpty()) {
      int length = Character.charCount(Character.codePointAt(text, from, to));
      keep(from, length);
      return from + length;
    }
    int end = from;
    for (int i = 0; i < simplified.length(); ) {
      int length = Character.charCount(Character.codePointAt(text, end, to));
      int newLength = Character.charCount(simplified.codePointAt(i));
      replace(length, simplified.substring(i, i + newLength));
      end += length;
      i += newLength;
    }
    return end;
  }
}
