package io.plumbline.jieba;

import org.apache.lucene.analysis.Tokenizer;
import org.elasticsearch.plugin.Inject;
import org.elasticsearch.plugin.NamedComponent;
import org.elasticsearch.plugin.analysis.TokenizerFactory;

/** {@code jieba_search}: the words, for queries. */
@NamedComponent("jieba_search")
public final class JiebaSearchTokenizerFactory implements TokenizerFactory {
  private final JiebaSettings settings;

  @Inject
  public JiebaSearchTokenizerFactory(JiebaSettings settings) {
    this.settings = settings;
  }

  @Override
  public Tokenizer create() {
    return new JiebaTokenizer(new Segmenter(Dictionary.shared(), Mode.SEARCH, settings.hmm()));
  }
}
