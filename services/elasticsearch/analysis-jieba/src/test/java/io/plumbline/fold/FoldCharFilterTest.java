package io.plumbline.fold;

import java.io.IOException;
import java.io.Reader;
import java.io.StringReader;
import java.io.StringWriter;
import java.text.Normalizer;
import java.util.List;
import org.apache.lucene.analysis.CharFilter;
import org.apache.lucene.tests.util.LuceneTestCase;
import org.apache.lucene.tests.util.TestUtil;

public class FoldCharFilterTest extends LuceneTestCase {
  public void testWidthsAndCompatibilityFormsAreFolded() {
    assertEquals("ABC123,km 1 ガイド 株式会社 가", width("ＡＢＣ１２３，㎞ ① ｶﾞｲﾄﾞ ㍿ ᄀ" + "ᅡ"));
    assertEquals("福fi", width("\uFA1Bﬁ"));
  }

  public void testCaseIsKept() {
    assertEquals("T恤", Folding.fold("Ｔ恤"));
  }

  public void testWhatShowsNothingIsDropped() {
    assertEquals("北京大学cooperation", width("北\u200B京\uFEFF大\u2060学co\u00ADop\u200Deration"));
    assertEquals("葛城", width("葛\uDB40\uDD00城\uFE00"));
  }

  public void testTraditionalBecomesSimplified() {
    assertEquals("软体与头发的发展", script("軟體與頭髮的發展"));
  }

  public void testPhrasesGoBeforeCharacters() {
    assertEquals("乾隆乾坤干燥", script("乾隆乾坤乾燥"));
    assertEquals("一目了然 瞭望", script("一目瞭然 瞭望"));
  }

  public void testEachFoldingCanBeSwitchedOff() throws IOException {
    assertEquals("Ａ软", read(Folding.reader(new StringReader("Ａ軟"), false, true)));
    assertEquals("A軟", read(Folding.reader(new StringReader("Ａ軟"), true, false)));
    assertEquals("Ａ軟", read(Folding.reader(new StringReader("Ａ軟"), false, false)));
  }

  public void testRandomTextIsFoldedAsByTheNormalizer() {
    for (int i = 0; i < 5000; i++) {
      String text = TestUtil.randomUnicodeString(random(), 30) + TestUtil.randomRealisticUnicodeString(random());
      text = visible(text);
      assertEquals(Normalizer.normalize(text, Normalizer.Form.NFKC), width(text));
    }
  }

  public void testMarksAcrossTheBufferAreFoldedWithTheirLetter() {
    for (int length = 4000; length < 4200; length++) {
      String text = "a".repeat(length) + "e\u0301" + "ｶﾞ".repeat(3) + "b".repeat(100);
      assertEquals(Normalizer.normalize(text, Normalizer.Form.NFKC), width(text));
    }
  }

  public void testMarksWithoutEndAreRead() {
    String text = "e" + "\u0323".repeat(20_000);
    assertTrue(width(text).length() >= 20_000);
  }

  public void testOffsetsLeadToTheOriginal() throws IOException {
    //             0123456789 0 1
    String text = "北㎞ＡB㍿ｶﾞ學\u200B\u200B生é";
    CharFilter filter = (CharFilter) Folding.reader(new StringReader(text), true, true);
    assertEquals("北kmAB株式会社ガ学生é", read(filter));
    int[] places = {0, 1, 1, 2, 3, 4, 4, 4, 4, 5, 7, 10, 11, 12};
    for (int place = 0; place < places.length; place++) {
      assertEquals("place " + place, places[place], filter.correctOffset(place));
    }
  }

  public void testOffsetsHoldWhateverTheScriptOfThePlane() throws IOException {
    String text = "㑮a𠮷b\uD83D\uDE00c軟";
    CharFilter filter = (CharFilter) Folding.reader(new StringReader(text), true, true);
    String folded = read(filter);
    assertEquals("𫝈a𠮷b\uD83D\uDE00c软", folded);
    for (String mark : List.of("a", "b", "c")) {
      assertEquals(text.indexOf(mark), filter.correctOffset(folded.indexOf(mark)));
    }
    assertEquals(text.length(), filter.correctOffset(folded.length()));
  }

  public void testOffsetsNeverDecreaseAndEndWithTheText() throws IOException {
    for (int i = 0; i < 500; i++) {
      String text = TestUtil.randomRealisticUnicodeString(random(), 100) + TestUtil.randomUnicodeString(random(), 100);
      CharFilter filter = (CharFilter) Folding.reader(new StringReader(text), true, true);
      int length = read(filter).length();
      int before = 0;
      for (int place = 0; place <= length; place++) {
        int corrected = filter.correctOffset(place);
        assertTrue(corrected >= before);
        before = corrected;
      }
      assertEquals(text.length(), before);
    }
  }

  private static String visible(String text) {
    return text.codePoints()
        .filter(c -> width(Character.toString(c)).length() > 0)
        .collect(StringBuilder::new, StringBuilder::appendCodePoint, StringBuilder::append)
        .toString();
  }

  private static String width(String text) {
    return read(Folding.reader(new StringReader(text), true, false));
  }

  private static String script(String text) {
    return read(Folding.reader(new StringReader(text), false, true));
  }

  private static String read(Reader reader) {
    try {
      StringWriter text = new StringWriter();
      reader.transferTo(text);
      return text.toString();
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }
}
