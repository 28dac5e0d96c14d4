package io.plumbline.grams;

import org.apache.lucene.analysis.Tokenizer;
import org.elasticsearch.plugin.NamedComponent;
import org.elasticsearch.plugin.analysis.TokenizerFactory;

/** {@code chinese_bigram}: pairs of Chinese characters that overlap. */
@NamedComponent("chinese_bigram")
public final class BigramTokenizerFactory implements TokenizerFactory {
  @Override
  public Tokenizer create() {
    return new GramTokenizer(2);
  }
}
