package io.plumbline.jieba;

import io.plumbline.analysis.Letters;
import io.plumbline.analysis.TokenList;

/**
 * Cuts a block into words exactly as jieba 0.42.1 does. A block is a run of the characters of jieba's {@code
 * re_han_default}; {@link BlockReader} finds it. Not for several threads at once.
 */
final class Segmenter {
  private final Lexicon lexicon;
  private final Mode mode;
  private final NewWords newWords;
  private final Lexicon.Route route = new Lexicon.Route();
  private final Lexicon.Matches found;
  private final TokenList words = new TokenList();
  private final TokenList parts = new TokenList();

  /**
   * @param hmm whether characters that the dictionary left single are joined by the {@link HiddenMarkovModel}
   */
  Segmenter(Lexicon lexicon, Mode mode, boolean hmm) {
    this.lexicon = lexicon;
    this.mode = mode;
    newWords = hmm ? new NewWords(lexicon) : null;
    found = new Lexicon.Matches(Math.max(1, lexicon.longestWord()));
  }

  /** Adds the tokens of a block, sorted by start and end. */
  void cut(char[] text, int from, int to, TokenList tokens) {
    switch (mode) {
      case SEARCH -> cutWords(text, from, to, tokens);
      case INDEX -> {
        words.clear();
        cutWords(text, from, to, words);
        addWithSubWords(text, tokens);
      }
      case ALL -> cutAll(text, from, to, tokens);
    }
  }

  /**
   * Adds a word of the owner's that jieba could not cut because not all its characters can stand in a block; for indexing,
   * also the words inside it.
   */
  void cutUserWord(char[] text, int from, int to, TokenList tokens) {
    if (mode == Mode.SEARCH) {
      tokens.add(from, to, 1);
      return;
    }
    parts.clear();
    cutParts(text, from, to, parts);
    int increment = 1;
    int part = 0;
    for (; part < parts.size() && parts.start(part) == from; part++) {
      tokens.add(from, parts.end(part), increment);
      increment = 0;
    }
    tokens.add(from, to, increment);
    for (; part < parts.size(); part++) {
      tokens.add(parts.start(part), parts.end(part), 0);
    }
  }

  private void cutParts(char[] text, int from, int to, TokenList tokens) {
    int end;
    for (int start = from; start < to; start = end) {
      end = start + Character.charCount(Character.codePointAt(text, start, to));
      if (!CharKind.isInBlock(text[start])) {
        tokens.addWord(text, start, end);
        continue;
      }
      while (end < to && CharKind.isInBlock(text[end])) {
        end++;
      }
      cut(text, start, end, tokens);
    }
  }

  /** {@code cut}. */
  private void cutWords(char[] text, int from, int to, TokenList tokens) {
    lexicon.findRoute(text, from, to, route, found);
    if (newWords == null) {
      cutByDictionary(text, from, to, tokens);
    } else {
      cutByDictionaryAndModel(text, from, to, tokens);
    }
  }

  /** {@code __cut_DAG_NO_HMM}: single letters and digits in a row make a word. */
  private void cutByDictionary(char[] text, int from, int to, TokenList tokens) {
    int run = from;
    int start = from;
    while (start < to) {
      int end = route.endOfWord(start);
      if (end - start > 1 || !CharKind.isLatin(text[start])) {
        tokens.addWord(text, run, start);
        tokens.addWord(text, start, end);
        run = end;
      }
      start = end;
    }
    tokens.addWord(text, run, to);
  }

  /** {@code __cut_DAG}: single characters in a row go to the model. */
  private void cutByDictionaryAndModel(char[] text, int from, int to, TokenList tokens) {
    int run = from;
    int start = from;
    while (start < to) {
      int end = route.endOfWord(start);
      if (end - start > 1) {
        cutRun(text, run, start, tokens);
        tokens.addWord(text, start, end);
        run = end;
      }
      start = end;
    }
    cutRun(text, run, to, tokens);
  }

  private void cutRun(char[] text, int from, int to, TokenList tokens) {
    if (to - from > 1 && !lexicon.isWord(text, from, to)) {
      newWords.cut(text, from, to, tokens);
      return;
    }
    for (int i = from; i < to; i++) {
      tokens.addWord(text, i, i + 1);
    }
  }

  /** {@code cut_for_search}: a sub-word takes the position of its word, whichever of them comes first. */
  private void addWithSubWords(char[] text, TokenList tokens) {
    for (int i = 0; i < words.size(); i++) {
      int start = words.start(i);
      int end = words.end(i);
      int increment = 1;
      for (int at = start; at < end; at++) {
        for (int gram = at + 2; gram <= Math.min(at + 3, end); gram++) {
          if (gram - at < end - start && lexicon.isWord(text, at, gram)) {
            tokens.add(at, gram, increment);
            increment = 0;
          }
        }
        if (at == start) {
          tokens.add(start, end, increment);
          increment = 0;
        }
      }
    }
  }

  /**
   * {@code __cut_all}. Letters and digits that begin no longer word are joined. Each new start is a new position, so that
   * what was cut in the same way is found as a phrase.
   */
  private void cutAll(char[] text, int from, int to, TokenList tokens) {
    int run = from;
    int runEnd = from;
    int covered = from;
    for (int i = from; i < to; i++) {
      boolean isLatin = CharKind.isLatin(text[i]);
      lexicon.findWords(text, i, to, found);
      boolean isAlone = found.size == 1 && i >= covered;
      if (!isLatin || isAlone && i != runEnd) {
        tokens.addWord(text, run, runEnd);
        run = i;
        runEnd = i;
      }
      if (isAlone) {
        covered = found.ends[0];
        if (isLatin) {
          runEnd = covered;
        } else {
          tokens.addWord(text, i, covered);
        }
      } else if (found.ends[found.size - 1] > i + 1) {
        tokens.addWord(text, run, runEnd);
        run = runEnd;
        covered = addReadings(text, i, tokens);
      }
    }
    tokens.addWord(text, run, runEnd);
  }

  /** Adds the words of two and more characters that begin at a place, all at one position; gives the end of the longest. */
  private int addReadings(char[] text, int start, TokenList tokens) {
    int increment = 1;
    for (int i = 0; i < found.size; i++) {
      int end = found.ends[i];
      if (end > start + 1 && Letters.isIn(text, start, end)) {
        tokens.add(start, end, increment);
        increment = 0;
      }
    }
    return found.ends[found.size - 1];
  }
}
