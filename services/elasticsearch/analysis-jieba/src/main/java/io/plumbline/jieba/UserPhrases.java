package io.plumbline.jieba;

import io.plumbline.analysis.CharTrie;
import java.util.List;

/**
 * Words of the owner's that jieba's blocks cannot hold: with spaces, symbols, rare characters. They are found before all
 * others; of two that begin at one place the longer one counts.
 */
final class UserPhrases {
  private static final int IS_PHRASE = 1;

  private final CharTrie trie;
  private final int longest;

  UserPhrases(List<String> phrases) {
    trie = new CharTrie(phrases.stream().mapToInt(String::length).sum());
    longest = phrases.stream().mapToInt(String::length).max().orElse(0);
    for (String phrase : phrases) {
      trie.put(UserWords.comparable(phrase), IS_PHRASE);
    }
  }

  boolean isEmpty() {
    return longest == 0;
  }

  int longest() {
    return longest;
  }

  /** The length of the longest phrase that begins at a place of a text that lies between from and to, or 0. */
  int matchLength(char[] text, int from, int at, int to) {
    if (at > from && UserWords.joins(text[at - 1], text[at])) {
      return 0;
    }
    int length = 0;
    int node = CharTrie.ROOT;
    for (int i = at; i < to; i++) {
      node = trie.step(node, UserWords.comparable(text[i]));
      if (node == CharTrie.NOWHERE) {
        break;
      }
      if (trie.value(node) == IS_PHRASE && (i + 1 == to || !UserWords.joins(text[i], text[i + 1]))) {
        length = i + 1 - at;
      }
    }
    return length;
  }
}
