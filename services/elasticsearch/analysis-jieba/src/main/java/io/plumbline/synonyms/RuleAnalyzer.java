package io.plumbline.synonyms;

import io.plumbline.fold.Folding;
import io.plumbline.grams.BigramTokenizerFactory;
import io.plumbline.grams.CharacterTokenizerFactory;
import io.plumbline.jieba.JiebaSearchTokenizerFactory;
import io.plumbline.jieba.JiebaSettings;
import java.io.Reader;
import java.util.List;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.LowerCaseFilter;
import org.apache.lucene.analysis.Tokenizer;
import org.elasticsearch.plugin.analysis.TokenizerFactory;

/** Cuts the terms of a rule as the analyzer in which the rules stand cuts a query. */
final class RuleAnalyzer extends Analyzer {
  private final TokenizerFactory tokenizers;
  private final boolean fold;

  RuleAnalyzer(SynonymSettings settings) {
    tokenizers = tokenizers(settings);
    fold = settings.fold();
  }

  private static TokenizerFactory tokenizers(SynonymSettings settings) {
    return switch (settings.tokenizer()) {
      case "jieba_search" -> new JiebaSearchTokenizerFactory(new WordSettings(settings.hmm(), settings.userWords()));
      case "chinese_bigram" -> new BigramTokenizerFactory();
      case "chinese_char" -> new CharacterTokenizerFactory();
      default ->
          throw new IllegalArgumentException(
              "tokenizer: [" + settings.tokenizer() + "] is not jieba_search, chinese_bigram or chinese_char");
    };
  }

  private record WordSettings(boolean hmm, List<String> userWords) implements JiebaSettings {}

  @Override
  protected Reader initReader(String field, Reader reader) {
    return fold ? Folding.reader(reader, true, true) : reader;
  }

  @Override
  protected TokenStreamComponents createComponents(String field) {
    Tokenizer tokenizer = tokenizers.create();
    return new TokenStreamComponents(tokenizer, new LowerCaseFilter(tokenizer));
  }
}
