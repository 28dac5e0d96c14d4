package io.plumbline.jieba;

import io.plumbline.analysis.TokenList;
import io.plumbline.fold.Folding;
import java.io.IOException;
import java.io.Reader;
import java.io.StringReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.Tokenizer;
import org.apache.lucene.analysis.tokenattributes.CharTermAttribute;
import org.apache.lucene.analysis.tokenattributes.OffsetAttribute;
import org.apache.lucene.tests.analysis.BaseTokenStreamTestCase;

/** Positions, offsets and long texts. That the words are jieba's is tested from Python, against jieba itself. */
public class JiebaTokenizerTest extends BaseTokenStreamTestCase {
  private final Analyzer search = analyzer(Mode.SEARCH, false);
  private final Analyzer index = analyzer(Mode.INDEX, false);

  public void testWordsFollowEachOther() throws IOException {
    assertAnalyzesTo(
        search,
        "我爱北京天安门",
        new String[] {"我", "爱", "北京", "天安门"},
        new int[] {0, 1, 2, 4},
        new int[] {1, 2, 4, 7},
        new int[] {1, 1, 1, 1});
  }

  public void testSubWordsTakeThePositionOfTheirWord() throws IOException {
    assertAnalyzesTo(
        index,
        "在中国科学院",
        new String[] {"在", "中国", "中国科学院", "科学", "科学院", "学院"},
        new int[] {0, 1, 1, 3, 3, 4},
        new int[] {1, 3, 6, 5, 6, 6},
        null,
        new int[] {1, 1, 0, 0, 0, 0},
        null,
        false);
  }

  public void testPunctuationLeavesNoGap() throws IOException {
    assertAnalyzesTo(
        search,
        "软件包，（依赖）",
        new String[] {"软件包", "依赖"},
        new int[] {0, 5},
        new int[] {3, 7},
        new int[] {1, 1});
  }

  public void testLettersAndDigitsInARowAreOneWord() throws IOException {
    assertAnalyzesTo(search, "iPhone15发布 v2.0", new String[] {"iPhone15", "发布", "v2", "0"});
  }

  public void testTheModelJoinsWhatNoDictionaryHas() throws IOException {
    assertAnalyzesTo(search, "网易杭研大厦", new String[] {"网易", "杭", "研", "大厦"});
    assertAnalyzesTo(analyzer(Mode.SEARCH, true), "网易杭研大厦", new String[] {"网易", "杭研", "大厦"});
  }

  public void testTheModelKeepsDecimalNumbersWhole() throws IOException {
    assertAnalyzesTo(analyzer(Mode.SEARCH, true), "涨3.5%了", new String[] {"涨", "3.5%", "了"});
  }

  public void testOffsetsCountUtf16Units() throws IOException {
    assertAnalyzesTo(
        search,
        "😀北京\r\n𠮷野ＡB👨\u200D👩\u200D👧家",
        new String[] {"北京", "𠮷", "野", "Ａ", "B", "家"},
        new int[] {2, 6, 8, 9, 10, 19},
        new int[] {4, 8, 9, 10, 11, 20});
  }

  public void testTextWithoutWordsGivesNothing() throws IOException {
    for (String text : List.of("", " ", "\r\n", "，。！", "+-%", "😀", "\uD840", "\uDC00\uD840")) {
      assertAnalyzesTo(search, text, new String[0]);
    }
  }

  public void testALoneSurrogateDisturbsNothing() throws IOException {
    assertAnalyzesTo(search, "北京\uD840上海\uDC00", new String[] {"北京", "上海"}, new int[] {0, 3}, new int[] {2, 5});
  }

  public void testRandomTextKeepsTheContractOfTokenStreams() throws IOException {
    for (Mode mode : Mode.values()) {
      for (boolean hmm : new boolean[] {false, true}) {
        checkRandomData(random(), analyzer(mode, hmm), 200, 200, false, false);
      }
    }
  }

  public void testTheEndOfALongWordIsNotLost() throws IOException {
    String letters = "a".repeat(3 * TokenList.MAX_TOKEN_LENGTH + 5);
    List<Token> tokens = tokens(search, "北京" + letters + "上海");
    assertEquals(6, tokens.size());
    assertEquals(new Token("aaaaa", 2 + letters.length() - 5, 2 + letters.length()), tokens.get(4));
    assertEquals("上海", tokens.get(5).term());
  }

  public void testALongWordIsNotCutInsideACharacter() throws IOException {
    TokenList tokens = new TokenList();
    char[] text = ("a" + "𠮷".repeat(TokenList.MAX_TOKEN_LENGTH)).toCharArray();
    tokens.addWord(text, 0, text.length);
    assertEquals(TokenList.MAX_TOKEN_LENGTH - 1, tokens.end(0));
  }

  public void testABlockLongerThanTheBufferIsCutLikeAShortOne() throws IOException {
    String sentence = "中国科学院计算技术研究所的工程师在北京大学生活动中心喝iPhone牌咖啡";
    int copies = 10_000;
    for (Mode mode : Mode.values()) {
      Analyzer analyzer = analyzer(mode, random().nextBoolean());
      List<Token> once = tokens(analyzer, sentence);
      List<Token> often = tokens(analyzer, sentence.repeat(copies));
      assertEquals(once.size() * copies, often.size());
      for (int i = 0; i < often.size(); i++) {
        int shift = i / once.size() * sentence.length();
        assertEquals(once.get(i % once.size()).movedBy(shift), often.get(i));
      }
    }
  }

  public void testFiveMillionCharactersTakeLinearTimeAndBoundedMemory() throws IOException {
    int length = 5_000_000;
    for (String unit : List.of("哈", "a", "1", "中国", "北京，", "+", "é")) {
      Reader text = new StringReader(unit.repeat(length / unit.length()));
      try (Tokenizer tokenizer = tokenizer(Mode.INDEX, true)) {
        tokenizer.setReader(text);
        tokenizer.reset();
        while (tokenizer.incrementToken()) {}
        tokenizer.end();
        OffsetAttribute offsets = tokenizer.getAttribute(OffsetAttribute.class);
        assertEquals(length / unit.length() * unit.length(), offsets.endOffset());
      }
    }
  }

  public void testTheResultDoesNotDependOnHowTheReaderDeliversText() throws IOException {
    String text = "小明硕士毕业于中国科学院计算所𠮷，後在日本京都大学深造😀。".repeat(3000);
    List<Token> whole = tokens(index, text);
    Random random = random();
    Reader slow =
        new StringReader(text) {
          @Override
          public int read(char[] buffer, int from, int count) throws IOException {
            return super.read(buffer, from, Math.min(count, 1 + random.nextInt(7)));
          }
        };
    try (Tokenizer tokenizer = tokenizer(Mode.INDEX, false)) {
      assertEquals(whole, tokens(tokenizer, slow));
    }
  }

  public void testThreadsShareTheDictionary() throws Exception {
    String text = "小明硕士毕业于中国科学院计算所，后在日本京都大学深造。".repeat(200);
    List<Token> expected = tokens(analyzer(Mode.INDEX, true), text);
    ExecutorService threads = Executors.newFixedThreadPool(4);
    try {
      Callable<List<Token>> task = () -> tokens(analyzer(Mode.INDEX, true), text);
      for (Future<List<Token>> result : threads.invokeAll(List.of(task, task, task, task))) {
        assertEquals(expected, result.get());
      }
    } finally {
      threads.shutdown();
    }
  }

  public void testEveryReadingOfATextIsCut() throws IOException {
    assertAnalyzesTo(
        analyzer(Mode.ALL, false),
        "中国科学院ab1（あい）",
        new String[] {"中国", "中国科学院", "科学", "科学院", "学院", "ab1", "（あい）"},
        new int[] {0, 0, 2, 2, 3, 5, 8},
        new int[] {2, 5, 4, 5, 5, 8, 12},
        null,
        new int[] {1, 0, 1, 0, 1, 1, 1},
        null,
        false);
  }

  public void testAWordThatEndsInsideAFoldedCharacterCoversIt() throws IOException {
    Analyzer folding =
        new Analyzer() {
          @Override
          protected Reader initReader(String field, Reader reader) {
            return Folding.reader(reader, true, true);
          }

          @Override
          protected TokenStreamComponents createComponents(String field) {
            return new TokenStreamComponents(tokenizer(Mode.SEARCH, false));
          }
        };
    List<Token> tokens = tokens(folding, "我㍿㋿學\u200B");
    assertEquals(
        List.of(
            new Token("我", 0, 1),
            new Token("株式会社", 1, 2),
            new Token("令", 2, 3),
            new Token("和", 2, 3),
            new Token("学", 3, 5)),
        tokens);
  }

  static String lastTerm(Analyzer analyzer, String text) throws IOException {
    return tokens(analyzer, text).getLast().term();
  }

  private record Token(String term, int start, int end) {
    Token movedBy(int shift) {
      return new Token(term, start + shift, end + shift);
    }
  }

  private static Tokenizer tokenizer(Mode mode, boolean hmm) {
    return new JiebaTokenizer(UserWords.none(), mode, hmm);
  }

  private static Analyzer analyzer(Mode mode, boolean hmm) {
    return new Analyzer() {
      @Override
      protected TokenStreamComponents createComponents(String field) {
        return new TokenStreamComponents(tokenizer(mode, hmm));
      }
    };
  }

  private static List<Token> tokens(Analyzer analyzer, String text) throws IOException {
    try (Tokenizer tokenizer = (Tokenizer) analyzer.tokenStream("", text)) {
      return tokens(tokenizer);
    }
  }

  private static List<Token> tokens(Tokenizer tokenizer, Reader text) throws IOException {
    tokenizer.setReader(text);
    return tokens(tokenizer);
  }

  private static List<Token> tokens(Tokenizer tokenizer) throws IOException {
    CharTermAttribute term = tokenizer.getAttribute(CharTermAttribute.class);
    OffsetAttribute offsets = tokenizer.getAttribute(OffsetAttribute.class);
    List<Token> tokens = new ArrayList<>();
    tokenizer.reset();
    while (tokenizer.incrementToken()) {
      tokens.add(new Token(term.toString(), offsets.startOffset(), offsets.endOffset()));
    }
    tokenizer.end();
    return tokens;
  }
}
