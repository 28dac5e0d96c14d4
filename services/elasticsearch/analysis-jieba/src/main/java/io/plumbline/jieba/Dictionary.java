package io.plumbline.jieba;

import java.util.Arrays;
import java.util.List;

/**
 * jieba's own dictionary. It is loaded once, at first use, and shared by all analyzers of the node.
 *
 * <p>Source: {@code dict.txt} of jieba 0.42.1, through {@code generate_dictionary.py}.
 */
final class Dictionary implements Lexicon {
  /** Words and their prefixes: 498,113 of them. */
  private static final int MAX_NODES = 500_000;

  private final CharTrie words;
  private final int longestWord;

  /** By the value that the trie gives; the first is of what is no word, whose frequency jieba takes for 1. */
  private final int[] frequencies;

  private final double[] weights;
  private final long total;

  private Dictionary(List<String> frequencyLines, List<String> wordLines) {
    String[] totalFields = frequencyLines.get(0).split("\t");
    total = Long.parseLong(totalFields[0]);
    double totalLog = Double.parseDouble(totalFields[1]);
    frequencies = new int[frequencyLines.size()];
    weights = new double[frequencyLines.size()];
    weights[0] = 0 - totalLog;
    for (int i = 1; i < frequencies.length; i++) {
      String[] fields = frequencyLines.get(i).split("\t");
      frequencies[i] = Integer.parseInt(fields[0]);
      weights[i] = Double.parseDouble(fields[1]) - totalLog;
    }
    words = new CharTrie(MAX_NODES);
    int longest = 0;
    for (String line : wordLines) {
      int tab = line.indexOf('\t');
      int frequency = Integer.parseInt(line, tab + 1, line.length(), 10);
      words.put(line.substring(0, tab), Arrays.binarySearch(frequencies, frequency));
      longest = Math.max(longest, tab);
    }
    longestWord = longest;
  }

  static Dictionary shared() {
    return Holder.DICTIONARY;
  }

  private static final class Holder {
    static final Dictionary DICTIONARY =
        new Dictionary(Tables.lines("frequencies.txt"), Tables.lines("words.txt"));
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
  public boolean isWord(char[] text, int from, int to) {
    return words.get(text, from, to) != 0;
  }

  @Override
  public boolean isForbidden(char[] text, int from, int to) {
    return false;
  }
}
