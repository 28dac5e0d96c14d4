package io.plumbline.fold;

import io.plumbline.analysis.CharTrie;
import io.plumbline.analysis.Tables;
import java.util.ArrayList;
import java.util.List;

/** OpenCC's tables for {@code t2s}, loaded once and shared. */
final class ScriptTable {
  private final CharTrie trie;

  /** By the value that the trie gives; the first is of what is not in the tables. */
  private final List<String> simplified = new ArrayList<>(List.of(""));

  /** What a UTF-16 unit becomes where the text around it does not matter. */
  private final char[] characters = new char[Character.MAX_VALUE + 1];

  private ScriptTable() {
    List<String> lines = Tables.lines("script.txt");
    trie = new CharTrie(lines.stream().mapToInt(String::length).sum());
    for (int c = 0; c < characters.length; c++) {
      characters[c] = (char) c;
    }
    for (String line : lines) {
      String[] fields = line.split("\t");
      trie.put(fields[0], simplified.size());
      simplified.add(fields[1]);
      boolean isSimple = fields[0].length() == 1 && fields[1].length() == 1 && characters[fields[0].charAt(0)] != FoldFilter.BY_GROUP;
      characters[fields[0].charAt(0)] = isSimple ? fields[1].charAt(0) : FoldFilter.BY_GROUP;
    }
  }

  static ScriptTable shared() {
    return Holder.TABLE;
  }

  private static final class Holder {
    static final ScriptTable TABLE = new ScriptTable();
  }

  char[] characters() {
    return characters;
  }

  /** What the longest phrase or the character at a place becomes, empty if it is not in the tables. */
  String longestMatch(char[] text, int from, int to) {
    int longest = 0;
    int node = CharTrie.ROOT;
    for (int i = from; i < to; i++) {
      node = trie.step(node, text[i]);
      if (node == CharTrie.NOWHERE) {
        break;
      }
      longest = trie.value(node) != 0 ? trie.value(node) : longest;
    }
    return simplified.get(longest);
  }
}
