package io.plumbline.jieba;

/** The ways in which jieba cuts. */
enum Mode {
  /** {@code cut}: each character belongs to one word. */
  SEARCH,

  /** {@code cut_for_search}: also the words of two and three characters inside longer words. */
  INDEX,

  /** {@code cut_all}: every word of the dictionary that can be read. */
  ALL
}
