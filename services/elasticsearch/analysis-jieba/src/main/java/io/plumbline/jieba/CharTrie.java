package io.plumbline.jieba;

/**
 * A map from strings to small numbers that is walked character by character.
 *
 * <p>Each prefix of a string is a node. All nodes lie in one hash table with linear probing, and a node is named by its
 * place in it. A cell holds, from the high bits down, the node's parent (32 bits), the character that leads from there
 * (16) and the node's value (16); so a step mostly reads one array element.
 *
 * <p>Strings must not contain U+0000, which marks a free cell together with the root.
 */
final class CharTrie {
  static final int ROOT = 0;

  /** What a step that leads nowhere gives. */
  static final int NOWHERE = -1;

  static final int MAX_VALUE = 0xFFFF;

  private static final long FREE = 0;
  private static final long TAKEN_BY_ROOT = -1;

  private final long[] cells;
  private final int shift;

  /**
   * @param capacity most nodes, the root left out; half of the cells stay free
   */
  CharTrie(int capacity) {
    int bits = Integer.SIZE - Integer.numberOfLeadingZeros(2 * capacity);
    cells = new long[1 << bits];
    cells[ROOT] = TAKEN_BY_ROOT;
    shift = Integer.SIZE - bits;
  }

  /** Gives a string a value, between 1 and {@link #MAX_VALUE}; mere prefixes have 0. */
  void put(CharSequence string, int value) {
    int node = ROOT;
    for (int i = 0; i < string.length(); i++) {
      node = stepOrAdd(node, string.charAt(i));
    }
    cells[node] = cells[node] & ~0xFFFFL | value;
  }

  /** The node over {@code c}, or {@link #NOWHERE}. */
  int step(int node, char c) {
    int at = place(node, c);
    return cells[at] == FREE ? NOWHERE : at;
  }

  int value(int node) {
    return (int) cells[node] & 0xFFFF;
  }

  /** The value of a string, 0 if it is not there. */
  int get(char[] text, int from, int to) {
    int node = ROOT;
    for (int i = from; i < to; i++) {
      node = step(node, text[i]);
      if (node == NOWHERE) {
        return 0;
      }
    }
    return value(node);
  }

  private int stepOrAdd(int node, char c) {
    int at = place(node, c);
    if (cells[at] == FREE) {
      cells[at] = key(node, c) << 16;
    }
    return at;
  }

  /** Where the node over {@code c} is, or where it would be. */
  private int place(int node, char c) {
    long key = key(node, c);
    int at = (node * 0x9E3779B1 + c * 0x85EBCA6B) >>> shift;
    while (cells[at] >>> 16 != key && cells[at] != FREE) {
      at = at + 1 & cells.length - 1;
    }
    return at;
  }

  private static long key(int node, char c) {
    return (long) node << 16 | c;
  }
}
