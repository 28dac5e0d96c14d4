package io.plumbline.jieba;

import io.plumbline.analysis.Tables;
import java.util.Arrays;

/**
 * The model by which jieba finds words that no dictionary has: each character begins a word (B), goes on in one (M), ends
 * one (E) or is one (S). All numbers are logarithms of probabilities.
 *
 * <p>Source: {@code finalseg/prob_*.py} of jieba 0.42.1.
 */
final class HiddenMarkovModel {
  static final int B = 0;
  static final int M = 1;
  static final int E = 2;
  static final int S = 3;
  static final int STATES = 4;

  final double[] start = new double[STATES];

  /** By the state before, then the state after. */
  final double[][] transitions = new double[STATES][];

  /** By character from {@link CharKind#FIRST_HAN} on, then state; jieba asks for no others. */
  private final double[] emissions =
      new double[(CharKind.LAST_HAN - CharKind.FIRST_HAN + 1) * STATES];

  private HiddenMarkovModel() {
    Arrays.fill(emissions, -3.14e100);
    for (String line : Tables.lines("hmm.txt")) {
      String[] fields = line.split("\t");
      double[] logs = Arrays.stream(fields).skip(2).mapToDouble(Double::parseDouble).toArray();
      switch (fields[0]) {
        case "start" -> System.arraycopy(logs, 0, start, 0, STATES);
        case "transition" -> transitions["BMES".indexOf(fields[1])] = logs;
        default -> setEmissions(fields[1].charAt(0), logs);
      }
    }
  }

  static HiddenMarkovModel shared() {
    return Holder.MODEL;
  }

  private static final class Holder {
    static final HiddenMarkovModel MODEL = new HiddenMarkovModel();
  }

  double emission(char han, int state) {
    return emissions[(han - CharKind.FIRST_HAN) * STATES + state];
  }

  private void setEmissions(char c, double[] logs) {
    if (CharKind.isHan(c)) {
      System.arraycopy(logs, 0, emissions, (c - CharKind.FIRST_HAN) * STATES, STATES);
    }
  }
}
