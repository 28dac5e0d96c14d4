package io.plumbline.jieba;

import java.io.IOException;
import org.apache.lucene.analysis.Tokenizer;
import org.apache.lucene.analysis.tokenattributes.CharTermAttribute;
import org.apache.lucene.analysis.tokenattributes.OffsetAttribute;
import org.apache.lucene.analysis.tokenattributes.PositionIncrementAttribute;

/**
 * The words of a text as jieba cuts it. Words with neither a letter nor a number (Unicode categories L and N) are left out
 * and leave no gap in the positions, so that a phrase holds across punctuation, however it is typed.
 *
 * <p>A block of more than 32,768 characters, longer than any real one, is cut in overlapping windows: there alone the words
 * could differ from jieba's.
 */
final class JiebaTokenizer extends Tokenizer {
  /** How far before the end of a window its words are still open. Words are at most a few dozen characters long. */
  private static final int OPEN_LENGTH = 1024;

  private final Segmenter segmenter;
  private final PieceReader pieces = new PieceReader();
  private final TokenList tokens = new TokenList();
  private int nextToken;

  private final CharTermAttribute term = addAttribute(CharTermAttribute.class);
  private final OffsetAttribute offsets = addAttribute(OffsetAttribute.class);
  private final PositionIncrementAttribute position = addAttribute(PositionIncrementAttribute.class);

  JiebaTokenizer(Segmenter segmenter) {
    this.segmenter = segmenter;
    takeInput();
  }

  @Override
  public void reset() throws IOException {
    super.reset();
    takeInput();
  }

  @Override
  public void close() throws IOException {
    super.close();
    takeInput();
  }

  /** Begins with what {@code input} is now: between two texts, a reader that refuses to be read. */
  private void takeInput() {
    pieces.reset(input);
    tokens.clear();
    nextToken = 0;
  }

  @Override
  public boolean incrementToken() throws IOException {
    clearAttributes();
    while (nextToken == tokens.size) {
      if (!pieces.next()) {
        return false;
      }
      cutPiece();
    }
    int start = tokens.starts[nextToken];
    int end = tokens.ends[nextToken];
    term.copyBuffer(pieces.text, start, end - start);
    offsets.setOffset(correctOffset(pieces.offsetOf(start)), correctOffset(pieces.offsetOf(end)));
    position.setPositionIncrement(tokens.increments[nextToken]);
    nextToken++;
    return true;
  }

  @Override
  public void end() throws IOException {
    super.end();
    int last = correctOffset(pieces.offsetOf(pieces.end));
    offsets.setOffset(last, last);
  }

  private void cutPiece() {
    tokens.clear();
    nextToken = 0;
    if (!pieces.isBlock()) {
      tokens.add(pieces.start, pieces.end, 1);
      return;
    }
    segmenter.cut(pieces.text, pieces.start, pieces.end, tokens);
    if (pieces.isCutOff()) {
      leaveOpenWords();
    }
  }

  /** Drops the last words of a window, which the text after it may change; the next window begins with them. */
  private void leaveOpenWords() {
    int open = pieces.end - OPEN_LENGTH;
    int size = tokens.size;
    while (size > 0 && (tokens.ends[size - 1] > open || size < tokens.size && tokens.increments[size] == 0)) {
      size--;
    }
    if (size > 0 && size < tokens.size) {
      pieces.resumeAt(tokens.starts[size]);
      tokens.size = size;
    }
  }
}
