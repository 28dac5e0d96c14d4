package io.plumbline.analysis;

import java.io.IOException;
import org.apache.lucene.analysis.CharFilter;
import org.apache.lucene.analysis.Tokenizer;
import org.apache.lucene.analysis.tokenattributes.CharTermAttribute;
import org.apache.lucene.analysis.tokenattributes.OffsetAttribute;
import org.apache.lucene.analysis.tokenattributes.PositionIncrementAttribute;

/**
 * A tokenizer that cuts a text piece by piece. Offsets are in UTF-16 units of the original text, before any character
 * filter. What is skipped leaves no gap in the positions, so that a phrase holds across punctuation, however it is typed.
 */
public abstract class PieceTokenizer extends Tokenizer {
  private final PieceReader pieces;
  private final TokenList tokens = new TokenList();
  private int nextToken;

  /** Whether a character filter stands before the tokenizer. */
  private boolean isFiltered;

  private final CharTermAttribute term = addAttribute(CharTermAttribute.class);
  private final OffsetAttribute offsets = addAttribute(OffsetAttribute.class);
  private final PositionIncrementAttribute position = addAttribute(PositionIncrementAttribute.class);

  protected PieceTokenizer(PieceReader pieces) {
    this.pieces = pieces;
    takeInput();
  }

  /** Adds the tokens of the reader's piece, sorted by start and end. */
  protected abstract void cut(TokenList tokens);

  @Override
  public final void reset() throws IOException {
    super.reset();
    takeInput();
  }

  @Override
  public final void close() throws IOException {
    super.close();
    takeInput();
  }

  @Override
  public final boolean incrementToken() throws IOException {
    clearAttributes();
    while (nextToken == tokens.size()) {
      if (!pieces.next()) {
        return false;
      }
      tokens.clear();
      nextToken = 0;
      cut(tokens);
    }
    int start = tokens.start(nextToken);
    int end = tokens.end(nextToken);
    term.copyBuffer(pieces.text, start, end - start);
    setOffset(pieces.offsetOf(start), pieces.offsetOf(end));
    position.setPositionIncrement(tokens.increment(nextToken));
    nextToken++;
    return true;
  }

  @Override
  public final void end() throws IOException {
    super.end();
    int last = correctOffset(pieces.offsetOf(pieces.end));
    offsets.setOffset(last, last);
  }

  /** Begins with what {@code input} is now: between two texts, a reader that refuses to be read. */
  private void takeInput() {
    isFiltered = input instanceof CharFilter;
    pieces.reset(input);
    tokens.clear();
    nextToken = 0;
  }

  private void setOffset(int start, int end) {
    if (isFiltered) {
      offsets.setOffset(correctOffset(start), correctEnd(end));
    } else {
      offsets.setOffset(start, end);
    }
  }

  /**
   * A word may end inside what a character filter made of one character ({@code ㍿} becomes four); the offset is then that of
   * the character's start, as for the place before. Such a word covers the whole character.
   */
  private int correctEnd(int end) {
    int corrected = correctOffset(end);
    if (corrected > correctOffset(end - 1)) {
      return corrected;
    }
    int next = end + 1;
    while (correctOffset(next) == corrected) {
      next++;
    }
    return correctOffset(next);
  }
}
