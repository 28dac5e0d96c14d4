package io.plumbline.grams;

import org.apache.lucene.analysis.Tokenizer;
import org.elasticsearch.plugin.NamedComponent;
import org.elasticsearch.plugin.analysis.TokenizerFactory;

/** {@code chinese_char}: single Chinese characters. */
@NamedComponent("chinese_char")
public final class CharacterTokenizerFactory implements TokenizerFactory {
  @Override
  public Tokenizer create() {
    return new GramTokenizer(1);
  }
}
