package io.plumbline.jieba;

import io.plumbline.analysis.Letters;
import io.plumbline.analysis.PieceReader;
import java.io.IOException;

/**
 * Reads the pieces that jieba makes of a text before it looks for words: blocks ({@code re_han_default}), and between them
 * single letters or, in {@link Mode#ALL}, what lies between white space ({@code re_skip_default}).
 *
 * <p>A word of the owner's that cannot lie in a block is a piece as well.
 */
final class BlockReader extends PieceReader {
  enum Kind {
    BLOCK,
    USER_WORD,
    BETWEEN
  }

  private final Mode mode;
  private final UserPhrases phrases;
  private Kind kind;

  BlockReader(Mode mode, UserPhrases phrases) {
    super(phrases.longest() + 1);
    this.mode = mode;
    this.phrases = phrases;
  }

  Kind kind() {
    return kind;
  }

  @Override
  protected boolean readPiece() throws IOException {
    int phraseLength = phraseLength();
    if (phraseLength > 0) {
      kind = Kind.USER_WORD;
      end += phraseLength;
      return true;
    }
    if (CharKind.isInBlock(text[end])) {
      kind = Kind.BLOCK;
      readBlock();
      return true;
    }
    kind = Kind.BETWEEN;
    if (mode == Mode.ALL && !CharKind.isSpace(text[end])) {
      readUntilSpace();
      return true;
    }
    int codePoint = codePoint();
    end += Character.charCount(codePoint);
    return Letters.isLetter(codePoint);
  }

  private void readBlock() throws IOException {
    do {
      end = phrases.isEmpty() ? blockEnd(end + 1, limit()) : end + 1;
    } while (hasMore() && CharKind.isInBlock(text[end]) && phraseLength() == 0);
  }

  private int blockEnd(int from, int to) {
    int at = from;
    while (at < to && CharKind.isInBlock(text[at])) {
      at++;
    }
    return at;
  }

  private void readUntilSpace() throws IOException {
    do {
      end++;
    } while (hasMore() && CharKind.isBetween(text[end]) && phraseLength() == 0);
  }

  /** The length of the phrase at {@link #end}, 0 if there is none. */
  private int phraseLength() throws IOException {
    if (phrases.isEmpty()) {
      return 0;
    }
    hasMore(phrases.longest() + 1);
    return phrases.matchLength(text, start, end, limit());
  }
}
