package io.plumbline.grams;

import java.io.IOException;
import java.io.StringReader;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.Tokenizer;
import org.apache.lucene.analysis.tokenattributes.OffsetAttribute;
import org.apache.lucene.tests.analysis.BaseTokenStreamTestCase;

public class GramTokenizerTest extends BaseTokenStreamTestCase {
  private final Analyzer bigrams = analyzer(2);
  private final Analyzer characters = analyzer(1);

  public void testPairsOverlap() throws IOException {
    assertAnalyzesTo(
        bigrams, "中国人", new String[] {"中国", "国人"}, new int[] {0, 1}, new int[] {2, 3}, new int[] {1, 1});
  }

  public void testARunOfOneIsATokenItself() throws IOException {
    assertAnalyzesTo(bigrams, "我，T恤!", new String[] {"我", "T", "恤"}, new int[] {0, 2, 3}, new int[] {1, 3, 4});
  }

  public void testCharactersStandAlone() throws IOException {
    assertAnalyzesTo(characters, "中国ひカ한", new String[] {"中", "国", "ひ", "カ", "한"});
  }

  public void testLettersAndDigitsInARowAreOneWord() throws IOException {
    for (Analyzer analyzer : new Analyzer[] {bigrams, characters}) {
      assertAnalyzesTo(analyzer, "iPhone15 été\u0301 3.5", new String[] {"iPhone15", "été\u0301", "3", "5"});
    }
  }

  public void testSupplementaryCharactersAreWhole() throws IOException {
    assertAnalyzesTo(
        bigrams, "😀𠮷野家", new String[] {"𠮷野", "野家"}, new int[] {2, 4}, new int[] {5, 6});
    assertAnalyzesTo(characters, "𠮷野", new String[] {"𠮷", "野"}, new int[] {0, 2}, new int[] {2, 3});
  }

  public void testAMarkStaysWithItsCharacter() throws IOException {
    assertAnalyzesTo(bigrams, "か\u3099き葛\uDB40\uDD00", new String[] {"か\u3099き", "き葛\uDB40\uDD00"});
  }

  public void testKanaKeepTheirLengthening() throws IOException {
    assertAnalyzesTo(bigrams, "データ", new String[] {"デー", "ータ"});
  }

  public void testTextWithoutLettersGivesNothing() throws IOException {
    for (String text : new String[] {"", " ，。", "\u0301", "😀", "\uD840"}) {
      assertAnalyzesTo(bigrams, text, new String[0]);
      assertAnalyzesTo(characters, text, new String[0]);
    }
  }

  public void testRandomTextKeepsTheContractOfTokenStreams() throws IOException {
    checkRandomData(random(), bigrams, 200, 200, false, false);
    checkRandomData(random(), characters, 200, 200, false, true);
  }

  public void testRunsLongerThanTheBufferAreCutLikeShortOnes() throws IOException {
    for (String unit : new String[] {"中", "𠮷", "か\u3099"}) {
      for (String before : new String[] {"", "中"}) {
        int count = 100_000 + before.length();
        String text = before + unit.repeat(100_000);
        assertEquals(count, count(characters, text));
        assertEquals(count - 1, count(bigrams, text));
      }
    }
  }

  public void testACharacterLongerThanTheBufferIsRead() throws IOException {
    assertTrue(count(bigrams, "か" + "\u3099".repeat(100_000)) > 1);
  }

  private static int count(Analyzer analyzer, String text) throws IOException {
    int count = 0;
    int start = 0;
    try (Tokenizer tokenizer = (Tokenizer) analyzer.tokenStream("", new StringReader(text))) {
      OffsetAttribute offsets = tokenizer.getAttribute(OffsetAttribute.class);
      tokenizer.reset();
      while (tokenizer.incrementToken()) {
        assertTrue(count == 0 || offsets.startOffset() > start);
        start = offsets.startOffset();
        count++;
      }
      tokenizer.end();
      assertEquals(text.length(), offsets.endOffset());
    }
    return count;
  }

  private static Analyzer analyzer(int size) {
    return new Analyzer() {
      @Override
      protected TokenStreamComponents createComponents(String field) {
        return new TokenStreamComponents(new GramTokenizer(size));
      }
    };
  }
}
