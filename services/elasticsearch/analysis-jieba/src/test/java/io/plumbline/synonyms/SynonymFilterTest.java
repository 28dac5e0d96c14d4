package io.plumbline.synonyms;

import io.plumbline.fold.Folding;
import io.plumbline.grams.BigramTokenizerFactory;
import io.plumbline.jieba.JiebaSearchTokenizerFactory;
import io.plumbline.jieba.JiebaSettings;
import java.io.IOException;
import java.io.Reader;
import java.util.List;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.LowerCaseFilter;
import org.apache.lucene.analysis.Tokenizer;
import org.apache.lucene.tests.analysis.BaseTokenStreamTestCase;
import org.elasticsearch.plugin.analysis.TokenizerFactory;

public class SynonymFilterTest extends BaseTokenStreamTestCase {
  public void testEachTermStandsForAll() throws IOException {
    Analyzer analyzer = words("北大, 北京大学");
    assertAnalyzesTo(analyzer, "在北大", new String[] {"在", "北京大学", "北大"}, new int[] {1, 1, 0});
    assertAnalyzesTo(analyzer, "北京大学", new String[] {"北大", "北京大学"}, new int[] {1, 0});
  }

  public void testAnArrowReplaces() throws IOException {
    assertAnalyzesTo(words("番茄 => 西红柿"), "番茄汤", new String[] {"西红柿", "汤"});
  }

  public void testATermOfSeveralWordsTakesTheirPositions() throws IOException {
    assertAnalyzesTo(
        words("机器学习, ML"),
        "机器学习",
        new String[] {"ml", "机器", "学习"},
        new int[] {0, 0, 2},
        new int[] {4, 2, 4},
        null,
        new int[] {1, 0, 1},
        new int[] {2, 1, 1},
        true);
  }

  public void testRulesAreFoldedAndLowerCased() throws IOException {
    assertAnalyzesTo(words("數據庫, ＤＢ"), "数据库", new String[] {"db", "数据库"}, new int[] {1, 0});
  }

  public void testRulesKnowTheWordsOfTheOwner() throws IOException {
    Analyzer analyzer = analyzer("jieba_search", List.of("ms sql, sql server"), List.of("sql server", "ms sql"));
    assertAnalyzesTo(analyzer, "SQL Server", new String[] {"ms sql", "sql server"}, new int[] {1, 0});
  }

  public void testRulesAreCutByTheTokenizerOfTheirAnalyzer() throws IOException {
    Analyzer analyzer = analyzer("chinese_bigram", List.of("北大, 北京大学"), List.of());
    assertAnalyzesTo(
        analyzer,
        "北大",
        new String[] {"北京", "北大", "京大", "大学"},
        new int[] {0, 0, 0, 0},
        new int[] {2, 2, 2, 2},
        null,
        new int[] {1, 0, 1, 1},
        new int[] {1, 3, 1, 1},
        true);
  }

  public void testWithoutRulesNothingChanges() throws IOException {
    assertAnalyzesTo(words(), "北大", new String[] {"北大"});
  }

  public void testAWrongSettingIsRefusedByName() {
    Exception refusal = expectThrows(IllegalArgumentException.class, () -> words("a => b => c"));
    assertTrue(refusal.getMessage(), refusal.getMessage().startsWith("synonyms: [a => b => c]"));
    refusal = expectThrows(IllegalArgumentException.class, () -> words("，, a"));
    assertTrue(refusal.getMessage(), refusal.getMessage().startsWith("synonyms: [，, a]"));
    refusal = expectThrows(IllegalArgumentException.class, () -> analyzer("standard", List.of(), List.of()));
    assertTrue(refusal.getMessage(), refusal.getMessage().startsWith("tokenizer: [standard]"));
  }

  private static Analyzer words(String... rules) {
    return analyzer("jieba_search", List.of(rules), List.of());
  }

  private record Settings(List<String> synonyms, String tokenizer, List<String> userWords)
      implements SynonymSettings, JiebaSettings {
    @Override
    public boolean fold() {
      return true;
    }

    @Override
    public boolean hmm() {
      return false;
    }
  }

  private static Analyzer analyzer(String tokenizer, List<String> rules, List<String> userWords) {
    Settings settings = new Settings(rules, tokenizer, userWords);
    SynonymFilterFactory filter = new SynonymFilterFactory(settings);
    TokenizerFactory tokenizers =
        tokenizer.equals("jieba_search") ? new JiebaSearchTokenizerFactory(settings) : new BigramTokenizerFactory();
    return new Analyzer() {
      @Override
      protected Reader initReader(String field, Reader reader) {
        return Folding.reader(reader, true, true);
      }

      @Override
      protected TokenStreamComponents createComponents(String field) {
        Tokenizer source = tokenizers.create();
        return new TokenStreamComponents(source, filter.create(new LowerCaseFilter(source)));
      }
    };
  }
}
