package io.plumbline.grams;

import io.plumbline.analysis.PieceTokenizer;
import io.plumbline.analysis.TokenList;

/**
 * Each so many Chinese characters in a row are a token; a run of fewer is one as a whole, and so is a run of other letters
 * and numbers.
 */
final class GramTokenizer extends PieceTokenizer {
  private final RunReader runs;
  private final int size;

  /**
   * @param size how many characters a token has, 1 or 2
   */
  GramTokenizer(int size) {
    this(new RunReader(), size);
  }

  private GramTokenizer(RunReader runs, int size) {
    super(runs);
    this.runs = runs;
    this.size = size;
  }

  @Override
  protected void cut(TokenList tokens) {
    if (runs.isChinese()) {
      cutChinese(tokens);
    } else {
      tokens.addWord(runs.text, runs.start, runs.end);
    }
  }

  private void cutChinese(TokenList tokens) {
    int first = runs.start;
    int last = first;
    int end = runs.characterEnd(first);
    if (size == 2 && end < runs.end) {
      last = end;
      end = runs.characterEnd(last);
    }
    while (end < runs.end) {
      tokens.addWord(runs.text, first, end);
      first = size == 2 ? last : end;
      last = end;
      end = runs.characterEnd(last);
    }
    if (runs.isCutOff() && first > runs.start) {
      runs.resumeAt(first);
    } else {
      tokens.addWord(runs.text, first, end);
    }
  }
}
