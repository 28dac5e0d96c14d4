package io.plumbline.jieba;

import java.io.IOException;
import java.util.List;
import java.util.OptionalLong;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.tests.analysis.BaseTokenStreamTestCase;

/** The owner's words. That words which fit in a block are cut as by jieba is tested from Python. */
public class UserWordsTest extends BaseTokenStreamTestCase {
  public void testAnItemHasJiebasForm() {
    assertEquals(new UserWord("云计算", OptionalLong.empty()), UserWord.parse(" 云计算 "));
    assertEquals(new UserWord("云计算", OptionalLong.of(5)), UserWord.parse("云计算 5"));
    assertEquals(new UserWord("云计算", OptionalLong.empty()), UserWord.parse("云计算 nz"));
    assertEquals(new UserWord("云计算", OptionalLong.of(5)), UserWord.parse("云计算 5 nz"));
    assertEquals(new UserWord("云计算", OptionalLong.of(5)), UserWord.parse("云计算 5 mytag"));
  }

  public void testAWordMayHaveSpaces() {
    assertEquals(new UserWord("sql server", OptionalLong.empty()), UserWord.parse("sql server"));
    assertEquals(new UserWord("sql server", OptionalLong.of(3)), UserWord.parse("sql server 3 n"));
    assertEquals(new UserWord("windows 10", OptionalLong.of(3)), UserWord.parse("windows 10 3"));
  }

  public void testWhatIsNoWordIsRefusedWithTheNameOfTheSetting() {
    for (String item : List.of("", " ", "长".repeat(UserWord.MAX_LENGTH + 1), "a\0b")) {
      Exception refusal = expectThrows(IllegalArgumentException.class, () -> UserWord.parse(item));
      assertTrue(refusal.getMessage().startsWith("user_words: "));
    }
  }

  public void testAWordIsCutWhole() throws IOException {
    assertAnalyzesTo(search(), "他是创新办主任", new String[] {"他", "是", "创新", "办", "主任"});
    assertAnalyzesTo(search("创新办"), "他是创新办主任", new String[] {"他", "是", "创新办", "主任"});
  }

  public void testAFrequencyOfZeroForbidsAWord() throws IOException {
    assertAnalyzesTo(search("天安门 0"), "天安门", new String[] {"天安", "门"});
  }

  public void testWordsWithSpacesAndSymbolsAreCutWhole() throws IOException {
    assertAnalyzesTo(
        search("*ST舜船", "sql server"),
        "买*ST舜船，用sql server吧",
        new String[] {"买", "*ST舜船", "用", "sql server", "吧"},
        new int[] {0, 1, 7, 8, 18},
        new int[] {1, 6, 8, 18, 19});
  }

  public void testOfTwoWordsThatBeginTogetherTheLongerCounts() throws IOException {
    assertAnalyzesTo(
        search("sql server", "sql server 2019 9"), "sql server 2019版 sql server 20", new String[] {
          "sql server 2019", "版", "sql server", "20"
        });
  }

  public void testCaseAndKindOfSpaceDoNotMatter() throws IOException {
    assertAnalyzesTo(search("sql server"), "SQL\u3000Server", new String[] {"SQL\u3000Server"});
    assertAnalyzesTo(search("iphone壳"), "IPhone壳", new String[] {"IPhone壳"});
  }

  public void testAWordIsKnownInItsFoldedFormToo() throws IOException {
    assertAnalyzesTo(search("軟體定義"), "软体定义和軟體定義", new String[] {"软体定义", "和", "軟體定義"});
  }

  public void testLatinWordsAreNotCutOutOfLongerOnes() throws IOException {
    assertAnalyzesTo(search("go", "sql server"), "google go mysql server", new String[] {
      "google", "go", "mysql", "server"
    });
  }

  public void testAnIndexHasTheWordsInsideAWordOfTheOwners() throws IOException {
    assertAnalyzesTo(
        analyzer(Mode.INDEX, "sql server", "*ST舜船"),
        "sql server *ST舜船",
        new String[] {"sql", "sql server", "server", "*ST舜船", "ST", "舜", "船"},
        new int[] {0, 0, 4, 11, 12, 14, 15},
        new int[] {3, 10, 10, 16, 14, 15, 16},
        null,
        new int[] {1, 0, 0, 1, 0, 0, 0},
        null,
        false);
  }

  public void testASymbolCanBeAWord() throws IOException {
    assertAnalyzesTo(search("★★★"), "好★★★★", new String[] {"好", "★★★"});
  }

  public void testRandomTextKeepsTheContractOfTokenStreams() throws IOException {
    for (Mode mode : Mode.values()) {
      checkRandomData(random(), analyzer(mode, "a b", "é", "ab 0", "𠮷", "c*"), 100, 200, false, false);
    }
  }

  public void testAWordAtTheEndOfTheBufferIsFound() throws IOException {
    for (int length : new int[] {32_760, 32_765, 32_767}) {
      for (String filler : List.of("，", "哈")) {
        assertAnalyzesToEndWith("sql server", filler.repeat(length) + "sql server");
      }
    }
  }

  private static void assertAnalyzesToEndWith(String word, String text) throws IOException {
    String last = JiebaTokenizerTest.lastTerm(search("sql server"), text);
    assertEquals(word, last);
  }

  private static Analyzer search(String... words) {
    return analyzer(Mode.SEARCH, words);
  }

  private static Analyzer analyzer(Mode mode, String... words) {
    UserWords userWords = UserWords.of(List.of(words));
    return new Analyzer() {
      @Override
      protected TokenStreamComponents createComponents(String field) {
        return new TokenStreamComponents(new JiebaTokenizer(userWords, mode, false));
      }
    };
  }
}
