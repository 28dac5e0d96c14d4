package io.plumbline.jieba;

import io.plumbline.analysis.PieceTokenizer;
import io.plumbline.analysis.TokenList;

/**
 * The words of a text as jieba cuts it. Words with neither a letter nor a number are left out.
 *
 * <p>A block of more than {@value BlockReader#BUFFER_LENGTH} characters, longer than any real one, is cut in overlapping
 * windows: there alone the words could differ from jieba's.
 */
final class JiebaTokenizer extends PieceTokenizer {
  /** How far before the end of a window its words are still open; longer than any word of the dictionary. */
  private static final int OPEN_LENGTH = 1024;

  private final BlockReader blocks;
  private final Segmenter segmenter;

  /**
   * @param hmm whether characters that the dictionary left single are joined by the {@link HiddenMarkovModel}
   */
  JiebaTokenizer(UserWords words, Mode mode, boolean hmm) {
    this(new BlockReader(mode, words.phrases()), new Segmenter(words.lexicon(), mode, hmm));
  }

  private JiebaTokenizer(BlockReader blocks, Segmenter segmenter) {
    super(blocks);
    this.blocks = blocks;
    this.segmenter = segmenter;
  }

  @Override
  protected void cut(TokenList tokens) {
    switch (blocks.kind()) {
      case BLOCK -> {
        segmenter.cut(blocks.text, blocks.start, blocks.end, tokens);
        if (blocks.isCutOff()) {
          leaveOpenWords(tokens);
        }
      }
      case USER_WORD -> segmenter.cutUserWord(blocks.text, blocks.start, blocks.end, tokens);
      case BETWEEN -> tokens.addWord(blocks.text, blocks.start, blocks.end);
    }
  }

  /** Drops the last words of a window, which the text after it may change; the next window begins with them. */
  private void leaveOpenWords(TokenList tokens) {
    int open = blocks.end - OPEN_LENGTH;
    int size = tokens.size();
    while (size > 0 && (tokens.end(size - 1) > open || !beginsPosition(tokens, size))) {
      size--;
    }
    if (size > 0 && size < tokens.size()) {
      blocks.resumeAt(tokens.start(size));
      tokens.truncate(size);
    }
  }

  private static boolean beginsPosition(TokenList tokens, int token) {
    return token == tokens.size() || tokens.increment(token) > 0;
  }
}
