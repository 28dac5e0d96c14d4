package io.plumbline.jieba;

import io.plumbline.fold.Folding;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

/**
 * The owner's words, beside jieba's. They are found in any case and also as {@link Folding} writes them, so that one entry
 * serves texts before and after the character filter. Where such a word begins or ends with a Latin letter or a digit, it is
 * not found inside a longer run of them: {@code go} is not cut from {@code google}.
 *
 * @param lexicon what is known inside blocks
 * @param phrases words that no block can hold
 */
record UserWords(Lexicon lexicon, UserPhrases phrases) {
  static UserWords none() {
    return new UserWords(Dictionary.shared(), new UserPhrases(List.of()));
  }

  /**
   * @param items in the form of {@link UserWord}
   */
  static UserWords of(List<String> items) {
    List<UserWord> inBlocks = new ArrayList<>();
    List<String> phrases = new ArrayList<>();
    for (String item : items) {
      UserWord word = UserWord.parse(item);
      if (word.fitsInBlock()) {
        inBlocks.add(word);
      } else if (word.frequency().orElse(1) > 0) {
        phrases.addAll(spellings(word.word()));
      }
    }
    Lexicon lexicon = inBlocks.isEmpty() ? Dictionary.shared() : new UserDictionary(inBlocks);
    return new UserWords(lexicon, new UserPhrases(phrases));
  }

  static Set<String> spellings(String word) {
    String folded = Folding.fold(word);
    return folded.equals(word) || folded.isBlank() ? Set.of(word) : Set.of(word, folded);
  }

  static CharSequence comparable(String word) {
    StringBuilder comparable = new StringBuilder(word);
    for (int i = 0; i < word.length(); i++) {
      comparable.setCharAt(i, comparable(word.charAt(i)));
    }
    return comparable;
  }

  /** How a character of a word or a text is compared. */
  static char comparable(char c) {
    return CharKind.isSpace(c) ? ' ' : Character.toLowerCase(c);
  }

  /** Whether two characters in a row belong to one run of Latin letters and digits, where no word of the owner's ends. */
  static boolean joins(char before, char after) {
    return CharKind.isLatin(before) && CharKind.isLatin(after);
  }
}
