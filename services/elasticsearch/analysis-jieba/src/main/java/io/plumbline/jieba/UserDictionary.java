package io.plumbline.jieba;

import io.plumbline.analysis.CharTrie;
import io.plumbline.analysis.TokenList;
import java.util.List;

/**
 * jieba's dictionary with words of the owner's laid over it, as by jieba's {@code add_word}. The dictionary itself is not
 * copied.
 */
final class UserDictionary implements Lexicon {
  private final Dictionary dictionary = Dictionary.shared();

  /** The value of each word is its number, from 1 on, among the owner's words. */
  private final CharTrie words;

  private final long[] frequencies;
  private final double[] logs;
  private final int longestWord;
  private long total = dictionary.total;
  private double totalLog = Math.log(total);

  /**
   * @param userWords all of which fit in a block
   */
  UserDictionary(List<UserWord> userWords) {
    words = new CharTrie(2 * userWords.stream().mapToInt(word -> word.word().length()).sum());
    frequencies = new long[userWords.size() + 1];
    logs = new double[userWords.size() + 1];
    longestWord = Math.max(dictionary.longestWord(), UserWord.MAX_LENGTH);
    Segmenter segmenter = new Segmenter(this, Mode.SEARCH, false);
    for (int number = 1; number < frequencies.length; number++) {
      UserWord word = userWords.get(number - 1);
      add(number, word.word(), word.frequency().orElseGet(() -> suggestedFrequency(word.word(), segmenter)));
    }
  }

  private void add(int number, String word, long frequency) {
    for (String spelling : UserWords.spellings(word)) {
      words.put(UserWords.comparable(spelling), number);
    }
    frequencies[number] = frequency;
    logs[number] = Math.log(Math.max(1, frequency));
    total += frequency;
    totalLog = Math.log(total);
  }

  /** {@code suggest_freq}: so much that the word as a whole outweighs what it is cut into without it. */
  private long suggestedFrequency(String word, Segmenter segmenter) {
    char[] text = word.toCharArray();
    TokenList parts = new TokenList();
    segmenter.cut(text, 0, text.length, parts);
    double share = 1;
    int end = 0;
    for (int i = 0; i <= parts.size(); i++) {
      int start = i < parts.size() ? parts.start(i) : text.length;
      for (; end < start; end++) {
        share *= 1 / (double) total;
      }
      if (i < parts.size()) {
        end = parts.end(i);
        share *= knownFrequency(text, start, end) / (double) total;
      }
    }
    return Math.max((long) (share * total) + 1, knownFrequency(text, 0, text.length));
  }

  private long knownFrequency(char[] text, int from, int to) {
    long frequency = frequency(text, from, to);
    return frequency == UNKNOWN ? 1 : frequency;
  }

  @Override
  public int longestWord() {
    return longestWord;
  }

  @Override
  public void findWords(char[] text, int from, int to, Matches found) {
    found.size = 0;
    int node = CharTrie.ROOT;
    int userNode = from > 0 && UserWords.joins(text[from - 1], text[from]) ? CharTrie.NOWHERE : CharTrie.ROOT;
    for (int i = from; i < to; i++) {
      node = node == CharTrie.NOWHERE ? node : dictionary.words.step(node, text[i]);
      userNode = userNode == CharTrie.NOWHERE ? userNode : words.step(userNode, UserWords.comparable(text[i]));
      if (node == CharTrie.NOWHERE && userNode == CharTrie.NOWHERE) {
        break;
      }
      boolean mayEnd = i + 1 == to || !UserWords.joins(text[i], text[i + 1]);
      int number = mayEnd && userNode != CharTrie.NOWHERE ? words.value(userNode) : 0;
      int value = node != CharTrie.NOWHERE ? dictionary.words.value(node) : 0;
      if (number != 0) {
        addUserWord(number, i + 1, found);
      } else if (value != 0) {
        found.add(i + 1, dictionary.log(value) - totalLog);
      }
    }
    if (found.size == 0) {
      found.add(from + 1, 0 - totalLog);
    }
  }

  private void addUserWord(int number, int end, Matches found) {
    if (frequencies[number] > 0) {
      found.add(end, logs[number] - totalLog);
    }
  }

  @Override
  public long frequency(char[] text, int from, int to) {
    int userNode = findUserWord(text, from, to);
    if (userNode != CharTrie.NOWHERE && words.value(userNode) != 0) {
      return frequencies[words.value(userNode)];
    }
    long frequency = dictionary.frequency(text, from, to);
    return frequency == UNKNOWN && userNode != CharTrie.NOWHERE ? 0 : frequency;
  }

  @Override
  public boolean isForbidden(char[] text, int from, int to) {
    int userNode = findUserWord(text, from, to);
    return userNode != CharTrie.NOWHERE && words.value(userNode) != 0 && frequencies[words.value(userNode)] == 0;
  }

  private int findUserWord(char[] text, int from, int to) {
    int node = CharTrie.ROOT;
    for (int i = from; i < to && node != CharTrie.NOWHERE; i++) {
      node = words.step(node, UserWords.comparable(text[i]));
    }
    return node;
  }
}
