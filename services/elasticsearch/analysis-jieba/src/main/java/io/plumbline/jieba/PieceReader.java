package io.plumbline.jieba;

import java.io.IOException;
import java.io.Reader;

/**
 * Reads a text piece by piece, however long it is: each piece is a block, inside which jieba looks for words, or one letter
 * outside the blocks. What is neither is skipped.
 *
 * <p>The piece is in {@link #text} from {@link #start} to {@link #end}. A block that fills the whole buffer is {@link
 * #isCutOff}: its last words may be wrong, and {@link #resumeAt} makes the next piece begin before them.
 */
final class PieceReader {
  private static final int BUFFER_LENGTH = 1 << 15;

  final char[] text = new char[BUFFER_LENGTH];
  int start;
  int end;
  private int limit;

  /** How much of the text went before the first character of the buffer. */
  private int offset;

  private Reader source;

  void reset(Reader newSource) {
    source = newSource;
    start = 0;
    end = 0;
    limit = 0;
    offset = 0;
  }

  /** Where a place of the buffer lies in the whole text, in UTF-16 units. */
  int offsetOf(int at) {
    return offset + at;
  }

  boolean next() throws IOException {
    start = end;
    while (hasMore()) {
      char c = text[end];
      if (CharKind.isInBlock(c)) {
        readBlock();
        return true;
      }
      if (readCharacter()) {
        return true;
      }
      start = end;
    }
    return false;
  }

  boolean isBlock() {
    return CharKind.isInBlock(text[start]);
  }

  boolean isCutOff() {
    return end - start == BUFFER_LENGTH;
  }

  void resumeAt(int at) {
    end = at;
  }

  private void readBlock() throws IOException {
    while (hasMore() && CharKind.isInBlock(text[end])) {
      end++;
    }
  }

  /** Reads one code point; whether it is a letter or a number. */
  private boolean readCharacter() throws IOException {
    char c = text[end++];
    if (Character.isHighSurrogate(c) && hasMore() && Character.isLowSurrogate(text[end])) {
      end++;
    }
    return CharKind.isLetterOrNumber(text, start, end);
  }

  /** Whether there is a character at {@link #end}; reads on if need be, unless the piece fills the buffer. */
  private boolean hasMore() throws IOException {
    if (end < limit) {
      return true;
    }
    System.arraycopy(text, start, text, 0, limit - start);
    offset += start;
    limit -= start;
    end -= start;
    start = 0;
    while (limit < BUFFER_LENGTH) {
      int count = source.read(text, limit, BUFFER_LENGTH - limit);
      if (count < 0) {
        break;
      }
      limit += count;
    }
    return end < limit;
  }
}
