package io.plumbline.jieba;

import io.plumbline.analysis.TokenList;

/**
 * Finds words in a run of characters that the dictionary left single: jieba's {@code finalseg}, Viterbi's algorithm over
 * the {@link HiddenMarkovModel}. Not for several threads at once.
 */
final class NewWords {
  private static final int STATES = HiddenMarkovModel.STATES;

  /** For each state the two that may precede it ({@code PrevStatus}), first the one that Python prefers in a tie. */
  private static final int[] PREFERRED = {
    HiddenMarkovModel.S, HiddenMarkovModel.M, HiddenMarkovModel.M, HiddenMarkovModel.S
  };

  private static final int[] OTHER = {
    HiddenMarkovModel.E, HiddenMarkovModel.B, HiddenMarkovModel.B, HiddenMarkovModel.E
  };

  private final HiddenMarkovModel model = HiddenMarkovModel.shared();
  private final Lexicon lexicon;
  private double[] before = new double[STATES];
  private double[] now = new double[STATES];
  private byte[] origins = new byte[64 * STATES];
  private byte[] path = new byte[64];

  NewWords(Lexicon lexicon) {
    this.lexicon = lexicon;
  }

  /** Cuts characters of a block: Han by the model, letters and digits by {@code finalseg.re_skip}. */
  void cut(char[] text, int from, int to, TokenList words) {
    int end;
    for (int start = from; start < to; start = end) {
      end = start + 1;
      if (CharKind.isHan(text[start])) {
        while (end < to && CharKind.isHan(text[end])) {
          end++;
        }
        cutHan(text, start, end, words);
      } else if (CharKind.isLatin(text[start])) {
        end = latinEnd(text, start, to);
        words.addWord(text, start, end);
      }
    }
  }

  /** The end of {@code [a-zA-Z0-9]+(?:\.\d+)?%?}. */
  private static int latinEnd(char[] text, int start, int to) {
    int end = start;
    while (end < to && CharKind.isLatin(text[end])) {
      end++;
    }
    if (end + 1 < to && text[end] == '.' && isDigit(text[end + 1])) {
      end++;
      while (end < to && isDigit(text[end])) {
        end++;
      }
    }
    return end < to && text[end] == '%' ? end + 1 : end;
  }

  private static boolean isDigit(char c) {
    return c >= '0' && c <= '9';
  }

  private void cutHan(char[] text, int from, int to, TokenList words) {
    findPath(text, from, to);
    int begin = from;
    for (int i = from; i < to; i++) {
      switch (path[i - from]) {
        case HiddenMarkovModel.B -> begin = i;
        case HiddenMarkovModel.E -> addWord(text, begin, i + 1, words);
        case HiddenMarkovModel.S -> addWord(text, i, i + 1, words);
        default -> {}
      }
    }
  }

  private void addWord(char[] text, int start, int end, TokenList words) {
    if (!lexicon.isForbidden(text, start, end)) {
      words.addWord(text, start, end);
      return;
    }
    for (int i = start; i < end; i++) {
      words.addWord(text, i, i + 1);
    }
  }

  /** Puts the most likely states of the characters into {@link #path}. It ends in E or S. */
  private void findPath(char[] text, int from, int to) {
    int length = to - from;
    if (path.length < length) {
      path = new byte[length];
      origins = new byte[length * STATES];
    }
    for (int state = 0; state < STATES; state++) {
      now[state] = model.start[state] + model.emission(text[from], state);
    }
    for (int i = 1; i < length; i++) {
      step(text[from + i], i * STATES);
    }
    int state = now[HiddenMarkovModel.S] >= now[HiddenMarkovModel.E] ? HiddenMarkovModel.S : HiddenMarkovModel.E;
    for (int i = length - 1; i >= 0; i--) {
      path[i] = (byte) state;
      state = origins[i * STATES + state];
    }
  }

  private void step(char c, int row) {
    double[] swap = before;
    before = now;
    now = swap;
    for (int state = 0; state < STATES; state++) {
      double emission = model.emission(c, state);
      int preferred = PREFERRED[state];
      int other = OTHER[state];
      double ofPreferred = before[preferred] + model.transitions[preferred][state] + emission;
      double ofOther = before[other] + model.transitions[other][state] + emission;
      boolean isPreferred = ofPreferred >= ofOther;
      now[state] = isPreferred ? ofPreferred : ofOther;
      origins[row + state] = (byte) (isPreferred ? preferred : other);
    }
  }
}
