package io.plumbline.jieba;

import org.apache.lucene.analysis.Tokenizer;
import org.elasticsearch.plugin.Inject;
import org.elasticsearch.plugin.NamedComponent;
import org.elasticsearch.plugin.analysis.TokenizerFactory;

/** {@code jieba_all}: every word that can be read. {@code hmm} changes nothing here, as in jieba. */
@NamedComponent("jieba_all")
public final class JiebaAllTokenizerFactory implements TokenizerFactory {
  private final UserWords words;

  @Inject
  public JiebaAllTokenizerFactory(JiebaSettings settings) {
    words = UserWords.of(settings.userWords());
  }

  @Override
  public Tokenizer create() {
    return new JiebaTokenizer(words, Mode.ALL, false);
  }
}
