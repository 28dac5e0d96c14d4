package io.plumbline.fold;

import java.io.IOException;
import java.io.Reader;
import java.util.Arrays;
import org.apache.lucene.analysis.CharFilter;

/**
 * A character filter that replaces groups of characters, and knows for each place of its output where it comes from.
 *
 * <p>Most characters become one character each, by a table. For the others the subclass looks at the text around. A
 * place inside the replacement of a group comes from the group's start.
 */
abstract class FoldFilter extends CharFilter {
  /** Longest group in UTF-16 units. */
  static final int MAX_GROUP = 64;

  /** In the table: the subclass decides. */
  static final char BY_GROUP = 0;

  private static final int BUFFER_LENGTH = 4096;

  private final char[] table;
  private final char[] text = new char[BUFFER_LENGTH];
  private int next;
  private int limit;
  private boolean isEnded;

  /** What is folded and not yet read. */
  private char[] folded = new char[BUFFER_LENGTH];

  private int nextFolded;
  private int foldedLimit;

  /** How many characters were folded, and how many came of them. */
  private int inputLength;

  private int outputLength;

  /** From which place of the output on which difference leads to the input. */
  private int[] places = new int[16];

  private int[] differences = new int[16];
  private int corrections;

  /** The last correction that was asked for, -1 if that was before the first. */
  private int recent = -1;

  /**
   * @param table what each UTF-16 unit becomes, or {@link #BY_GROUP}
   */
  FoldFilter(Reader input, char[] table) {
    super(input);
    this.table = table;
  }

  /** Whether a character is folded together with the one before it. */
  abstract boolean joinsPrevious(char c);

  /** Folds the group at from, by {@link #keep} or {@link #replace}, and gives its end. */
  abstract int foldGroup(char[] text, int from, int to);

  @Override
  public int read(char[] target, int from, int count) throws IOException {
    if (nextFolded == foldedLimit && !foldMore()) {
      return -1;
    }
    int length = Math.min(count, foldedLimit - nextFolded);
    System.arraycopy(folded, nextFolded, target, from, length);
    nextFolded += length;
    return length;
  }

  @Override
  protected int correct(int place) {
    if (!isBehind(recent, place) || isBehind(recent + 1, place)) {
      recent = findCorrection(place);
    }
    return recent < 0 ? place : place + differences[recent];
  }

  /** The last correction at or before a place. Places are mostly asked for in turn, so it is often the next one. */
  private int findCorrection(int place) {
    if (isBehind(recent + 1, place) && !isBehind(recent + 2, place)) {
      return recent + 1;
    }
    int at = Arrays.binarySearch(places, 0, corrections, place);
    return at >= 0 ? at : -at - 2;
  }

  /** Whether a place is at or after that of a correction. */
  private boolean isBehind(int correction, int place) {
    return correction < corrections && (correction < 0 || places[correction] <= place);
  }

  final void keep(int from, int length) {
    reserve(length);
    System.arraycopy(text, from, folded, foldedLimit, length);
    count(length, length);
  }

  /** Puts what becomes of a group of some length into the output. */
  final void replace(int length, String replacement) {
    int newLength = replacement.length();
    reserve(newLength);
    replacement.getChars(0, newLength, folded, foldedLimit);
    for (int i = 1; i < newLength; i++) {
      correctFrom(outputLength + i, inputLength - outputLength - i);
    }
    count(length, newLength);
    correctFrom(outputLength, inputLength - outputLength);
  }

  private void count(int read, int made) {
    inputLength += read;
    outputLength += made;
    foldedLimit += made;
  }

  private void reserve(int length) {
    if (foldedLimit + length > folded.length) {
      folded = Arrays.copyOf(folded, 2 * (foldedLimit + length));
    }
  }

  private void correctFrom(int place, int difference) {
    int current = corrections == 0 ? 0 : differences[corrections - 1];
    if (difference == current) {
      return;
    }
    if (corrections > 0 && places[corrections - 1] == place) {
      corrections--;
    }
    if (corrections == places.length) {
      places = Arrays.copyOf(places, 2 * corrections);
      differences = Arrays.copyOf(differences, 2 * corrections);
    }
    places[corrections] = place;
    differences[corrections] = difference;
    corrections++;
  }

  /** Folds what is in the buffer, and reads on as need be; false at the end of the text. */
  private boolean foldMore() throws IOException {
    nextFolded = 0;
    foldedLimit = 0;
    while (foldedLimit == 0) {
      readOn();
      if (next == limit) {
        return false;
      }
      foldBuffer();
    }
    return true;
  }

  private void readOn() throws IOException {
    System.arraycopy(text, next, text, 0, limit - next);
    limit -= next;
    next = 0;
    while (!isEnded && limit < BUFFER_LENGTH) {
      int read = input.read(text, limit, BUFFER_LENGTH - limit);
      if (read < 0) {
        isEnded = true;
      } else {
        limit += read;
      }
    }
  }

  /** Folds all but the last characters, which may belong to a group that goes on after the buffer. */
  private void foldBuffer() {
    int to = isEnded ? limit : limit - MAX_GROUP;
    while (next < to) {
      int tableEnd = next;
      while (tableEnd < to && table[text[tableEnd]] != BY_GROUP) {
        tableEnd++;
      }
      if (tableEnd > next && tableEnd < limit && joinsPrevious(text[tableEnd])) {
        tableEnd--;
      }
      foldByTable(tableEnd);
      if (next < to) {
        next = foldGroup(text, next, limit);
      }
    }
  }

  private void foldByTable(int to) {
    int length = to - next;
    reserve(length);
    for (int i = 0; i < length; i++) {
      folded[foldedLimit + i] = table[text[next + i]];
    }
    next = to;
    count(length, length);
  }
}
