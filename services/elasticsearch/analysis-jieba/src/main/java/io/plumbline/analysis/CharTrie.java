package io.plumbline.analysis;

/**
 * A map from strings to small numbers that is walked character by character.
 *
 * <p>Each prefix of a string is a node. All nodes lie in one hash table with linear probing, and a node is named by its
 * place in it. A cell holds, from the high bits down, the node's parent (24 bits), the character that leads from there
 * (16) and the node's value (24). So a step that leads somewhere mostly reads one array element; most that lead nowhere
 * are told by a filter, which is small enough to stay in the processor's cache.
 *
 * <p>Strings must not contain U+0000, which marks a free cell together with the root.
 */
public final class CharTrie {
  public static final int ROOT = 0;

  /** What a step that leads nowhere gives. */
  public static final int NOWHERE = -1;

  private static final int VALUE_BITS = 24;
  private static final int MAX_VALUE = (1 << VALUE_BITS) - 1;
  private static final long FREE = 0;
  private static final long TAKEN_BY_ROOT = -1;

  /** Bits of the filter for each cell, as a power of two. */
  private static final int FILTER_DENSITY = 2;

  private final long[] cells;
  private final int shift;

  /** A bit is set if a node has its hash. */
  private final long[] filter;

  /**
   * @param capacity most nodes, the root left out, at most 4 million; half of the cells stay free
   */
  public CharTrie(int capacity) {
    int bits = Math.max(Integer.SIZE - Integer.numberOfLeadingZeros(2 * capacity), 4);
    cells = new long[1 << bits];
    cells[ROOT] = TAKEN_BY_ROOT;
    shift = Integer.SIZE - bits;
    filter = new long[1 << bits + FILTER_DENSITY - 6];
  }

  /** Gives a string a value, between 1 and 16 million; mere prefixes have 0. */
  public void put(CharSequence string, int value) {
    int node = ROOT;
    for (int i = 0; i < string.length(); i++) {
      node = stepOrAdd(node, string.charAt(i));
    }
    cells[node] = cells[node] & ~MAX_VALUE | value;
  }

  /** The node over {@code c}, or {@link #NOWHERE}. */
  public int step(int node, char c) {
    int hash = hash(node, c);
    int bit = hash >>> shift - FILTER_DENSITY;
    if ((filter[bit >>> 6] & 1L << bit) == 0) {
      return NOWHERE;
    }
    int at = place(node, c, hash);
    return cells[at] == FREE ? NOWHERE : at;
  }

  public int value(int node) {
    return (int) cells[node] & MAX_VALUE;
  }

  /** The node of a string, or {@link #NOWHERE}. */
  public int find(char[] text, int from, int to) {
    int node = ROOT;
    for (int i = from; i < to && node != NOWHERE; i++) {
      node = step(node, text[i]);
    }
    return node;
  }

  private int stepOrAdd(int node, char c) {
    int hash = hash(node, c);
    int at = place(node, c, hash);
    if (cells[at] == FREE) {
      cells[at] = key(node, c) << VALUE_BITS;
      int bit = hash >>> shift - FILTER_DENSITY;
      filter[bit >>> 6] |= 1L << bit;
    }
    return at;
  }

  /** Where the node over {@code c} is, or where it would be. */
  private int place(int node, char c, int hash) {
    long key = key(node, c);
    int at = hash >>> shift;
    long cell = cells[at];
    while (cell >>> VALUE_BITS != key && cell != FREE) {
      at = at + 1 & cells.length - 1;
      cell = cells[at];
    }
    return at;
  }

  private static int hash(int node, char c) {
    return node * 0x9E3779B1 + c * 0x85EBCA6B;
  }

  private static long key(int node, char c) {
    return (long) node << Character.SIZE | c;
  }
}
