package io.plumbline.analysis;

/**
 * A map from strings to small numbers that is walked character by character.
 *
 * <p>Each prefix of a string is a node, and is named by the place of its cell. Those of single characters lie first, at the
 * place of the character; behind them all others in a hash table with linear probing. A cell holds, from the high bits
 * down, the node's parent (24 bits), the character that leads from there (16) and the node's value (24). So a step that
 * leads somewhere mostly reads one array element; most that lead nowhere are told by a filter, which is small enough to
 * stay in the processor's cache.
 *
 * <p>Strings must not contain U+0000, whose place is the root's.
 */
public final class CharTrie {
  public static final int ROOT = 0;

  /** What a step that leads nowhere gives. */
  public static final int NOWHERE = -1;

  private static final int VALUE_BITS = 24;
  private static final int MAX_VALUE = (1 << VALUE_BITS) - 1;
  private static final int FIRST_HASHED = Character.MAX_VALUE + 1;
  private static final long FREE = 0;

  /** Bits of the filter for each cell, as a power of two. */
  private static final int FILTER_DENSITY = 2;

  private final long[] cells;
  private final int hashedMask;
  private final int shift;

  /** A bit is set if a node has its hash. */
  private final long[] filter;

  /**
   * @param capacity most nodes, the root left out, at most 4 million; half of the cells stay free
   */
  public CharTrie(int capacity) {
    int bits = Math.max(Integer.SIZE - Integer.numberOfLeadingZeros(2 * capacity), 4);
    cells = new long[FIRST_HASHED + (1 << bits)];
    hashedMask = (1 << bits) - 1;
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

  /** The node of a single character, or {@link #NOWHERE}. */
  public int first(char c) {
    return cells[c] == FREE ? NOWHERE : c;
  }

  /** The node over {@code c} from a node that is not the root, or {@link #NOWHERE}. */
  public int next(int node, char c) {
    int hash = hash(node, c);
    int bit = hash >>> shift - FILTER_DENSITY;
    if ((filter[bit >>> 6] & 1L << bit) == 0) {
      return NOWHERE;
    }
    int at = hashedPlace(node, c, hash);
    return cells[at] == FREE ? NOWHERE : at;
  }

  /** The node over {@code c}, or {@link #NOWHERE}. */
  public int step(int node, char c) {
    return node == ROOT ? first(c) : next(node, c);
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
    int at = node == ROOT ? c : hashedPlace(node, c, hash);
    if (cells[at] == FREE) {
      cells[at] = key(node, c) << VALUE_BITS;
      int bit = hash >>> shift - FILTER_DENSITY;
      filter[bit >>> 6] |= 1L << bit;
    }
    return at;
  }

  /** Where the node over {@code c} is, or where it would be. */
  private int hashedPlace(int node, char c, int hash) {
    long key = key(node, c);
    int at = hash >>> shift;
    long cell = cells[FIRST_HASHED + at];
    while (cell >>> VALUE_BITS != key && cell != FREE) {
      at = at + 1 & hashedMask;
      cell = cells[FIRST_HASHED + at];
    }
    return FIRST_HASHED + at;
  }

  private static int hash(int node, char c) {
    return node * 0x9E3779B1 + c * 0x85EBCA6B;
  }

  private static long key(int node, char c) {
    return (long) node << Character.SIZE | c;
  }
}
