package io.plumbline.jieba;

import io.plumbline.analysis.CharTrie;
import io.plumbline.analysis.Tables;
import java.util.Arrays;
import java.util.List;

/**
 * jieba's own dictionary. It is loaded once, at first use, and shared by all analyzers of the node.
 *
 * <p>Source: {@code dict.txt} of jieba 0.42.1.
 */
final class Dictionary implements Lexicon {
  /** Words and their prefixes: 498,113 of them. */
  private static final int MAX_NODES = 500_000;

  /** The value of each word is the place of its frequency; that of a mere prefix is 0. */
  final CharTrie words = new CharTrie(MAX_NODES);

  final long total;

  /** By value. The first is of what is no word, which jieba counts as if it had been seen once. */
  private final long[] frequencies;

  private final double[] logs;
  private final double[] weights;
  private int longestWord;

  private Dictionary() {
    List<String> lines = Tables.lines("frequencies.txt");
    frequencies = new long[lines.size()];
    logs = new double[lines.size()];
    for (int i = 0; i < frequencies.length; i++) {
      String[] fields = lines.get(i).split("\t");
      frequencies[i] = Long.parseLong(fields[0]);
      logs[i] = Double.parseDouble(fields[1]);
    }
    total = frequencies[0];
    double totalLog = logs[0];
    frequencies[0] = 0;
    logs[0] = 0;
    weights = Arrays.stream(logs).map(log -> log - totalLog).toArray();
    for (String line : Tables.lines("words.txt")) {
      addWord(line);
    }
  }

  static Dictionary shared() {
    return Holder.DICTIONARY;
  }

  private static final class Holder {
    static final Dictionary DICTIONARY = new Dictionary();
  }

  private void addWord(String line) {
    int tab = line.indexOf('\t');
    long frequency = Long.parseLong(line, tab + 1, line.length(), 10);
    words.put(line.substring(0, tab), Arrays.binarySearch(frequencies, frequency));
    longestWord = Math.max(longestWord, tab);
  }

  /** The logarithm of the frequency of the words with a value. */
  double log(int value) {
    return logs[value];
  }

  @Override
  public int longestWord() {
    return longestWord;
  }

  @Override
  public void findWords(char[] text, int from, int to, Matches found) {
    found.size = 0;
    int node = words.first(text[from]);
    int end = from + 1;
    while (node != CharTrie.NOWHERE) {
      int value = words.value(node);
      if (value != 0) {
        found.add(end, weights[value]);
      }
      node = end < to ? words.next(node, text[end++]) : CharTrie.NOWHERE;
    }
    if (found.size == 0) {
      found.add(from + 1, weights[0]);
    }
  }

  /** The same as for any lexicon, in one loop: two thirds of the time of all segmentation is spent here. */
  @Override
  public void findRoute(char[] text, int from, int to, Route route, Matches found) {
    route.begin(from, to);
    double[] scores = route.scores;
    for (int i = to - 1; i >= from; i--) {
      int end = i + 1;
      double best = Double.NEGATIVE_INFINITY;
      int bestEnd = end;
      int node = words.first(text[i]);
      while (node != CharTrie.NOWHERE) {
        int value = words.value(node);
        if (value != 0) {
          double score = weights[value] + scores[end - from];
          if (score >= best) {
            best = score;
            bestEnd = end;
          }
        }
        node = end < to ? words.next(node, text[end++]) : CharTrie.NOWHERE;
      }
      boolean isFound = best != Double.NEGATIVE_INFINITY;
      scores[i - from] = isFound ? best : weights[0] + scores[i + 1 - from];
      route.ends[i - from] = bestEnd;
    }
  }

  @Override
  public long frequency(char[] text, int from, int to) {
    int node = words.find(text, from, to);
    return node == CharTrie.NOWHERE ? UNKNOWN : frequencies[words.value(node)];
  }

  @Override
  public boolean isForbidden(char[] text, int from, int to) {
    return false;
  }
}
