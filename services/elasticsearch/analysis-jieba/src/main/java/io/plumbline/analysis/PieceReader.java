package io.plumbline.analysis;

import java.io.IOException;
import java.io.Reader;

/**
 * Reads a text piece by piece, however long it is. What a piece is, and what is skipped, the subclass says.
 *
 * <p>The piece is in {@link #text} from {@link #start} to {@link #end}. A piece that fills the buffer may go on after it
 * ({@link #isCutOff}); {@link #resumeAt} makes the next piece begin before the end of this one.
 */
public abstract class PieceReader {
  public static final int BUFFER_LENGTH = 1 << 15;

  public final char[] text = new char[BUFFER_LENGTH];
  public int start;
  public int end;
  private final int lookahead;
  private int limit;

  /** How much of the text went before the first character of the buffer. */
  private int offset;

  private Reader source;

  /**
   * @param lookahead how many characters from its end on say where a piece ends
   */
  protected PieceReader(int lookahead) {
    this.lookahead = lookahead;
  }

  /** Reads from {@link #end} on: a piece, or something to skip; whether it is a piece. There is at least one character. */
  protected abstract boolean readPiece() throws IOException;

  final void reset(Reader newSource) {
    source = newSource;
    start = 0;
    end = 0;
    limit = 0;
    offset = 0;
  }

  /** Where a place in the buffer lies in the whole text, in UTF-16 units. */
  final int offsetOf(int at) {
    return offset + at;
  }

  final boolean next() throws IOException {
    start = end;
    while (hasMore()) {
      if (readPiece()) {
        return true;
      }
      start = end;
    }
    return false;
  }

  /** Whether the piece ends where it does because no more fits into the buffer. */
  public final boolean isCutOff() {
    return end - start > BUFFER_LENGTH - lookahead;
  }

  public final void resumeAt(int at) {
    end = at;
  }

  /** Whether there is a character at {@link #end}. */
  protected final boolean hasMore() throws IOException {
    return hasMore(1);
  }

  /** Whether there are so many characters from {@link #end} on; reads on if need be, unless the piece fills the buffer. */
  protected final boolean hasMore(int count) throws IOException {
    return end + count <= limit || readOn(count);
  }

  /** Where what was read so far ends. */
  protected final int limit() {
    return limit;
  }

  /** The code point at {@link #end}. */
  protected final int codePoint() throws IOException {
    return hasMore(2) ? Character.codePointAt(text, end, limit) : text[end];
  }

  private boolean readOn(int count) throws IOException {
    System.arraycopy(text, start, text, 0, limit - start);
    offset += start;
    limit -= start;
    end -= start;
    start = 0;
    while (limit < BUFFER_LENGTH) {
      int read = source.read(text, limit, BUFFER_LENGTH - limit);
      if (read < 0) {
        break;
      }
      limit += read;
    }
    return end + count <= limit;
  }
}
