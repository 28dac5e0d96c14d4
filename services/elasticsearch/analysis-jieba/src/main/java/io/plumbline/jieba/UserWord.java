package io.plumbline.jieba;

import io.plumbline.analysis.Tables;
import java.util.OptionalLong;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A word of the owner's in jieba's form, {@code word [frequency] [tag]}, here with spaces in the word as well. So a tag
 * counts as one after a frequency, or if it is one of those in jieba's dictionary: {@code sql server} is one word.
 *
 * @param frequency 0 forbids the word
 */
record UserWord(String word, OptionalLong frequency) {
  static final int MAX_LENGTH = 256;

  /** jieba's {@code re_userdict}. */
  private static final Pattern FORM = Pattern.compile("(.+?)(?: ([0-9]{1,15}))?(?: ([a-z]+))?");

  private static final Set<String> TAGS = Set.copyOf(Tables.lines("tags.txt"));

  static UserWord parse(String item) {
    Matcher parts = FORM.matcher(item.strip());
    if (!parts.matches()) {
      throw new IllegalArgumentException("user_words: [" + item + "] is not of the form word [frequency] [tag]");
    }
    String word = parts.group(1);
    String frequency = parts.group(2);
    String tag = parts.group(3);
    if (frequency == null && tag != null && !TAGS.contains(tag)) {
      word = word + " " + tag;
    }
    if (word.length() > MAX_LENGTH || word.indexOf('\0') >= 0) {
      throw new IllegalArgumentException(
          "user_words: [" + item + "] is longer than " + MAX_LENGTH + " characters or has a null character");
    }
    return new UserWord(word, frequency == null ? OptionalLong.empty() : OptionalLong.of(Long.parseLong(frequency)));
  }

  /** Whether jieba could cut it: all its characters can stand in one block. */
  boolean fitsInBlock() {
    return word.chars().allMatch(c -> CharKind.isInBlock((char) c));
  }
}
