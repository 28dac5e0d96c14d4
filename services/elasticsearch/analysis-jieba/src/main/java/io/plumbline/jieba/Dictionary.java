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
    int node = CharTrie.ROOT;
    for (int i = from; i < to; i++) {
      node = words.step(node, text[i]);
      if (node == CharTrie.NOWHERE) {
        break;
      }
      int value = words.value(node);
      if (value != 0) {
        found.add(i + 1, weights[value]);
      }
    }
    if (found.size == 0) {
      found.add(from + 1, weights[0]);
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
