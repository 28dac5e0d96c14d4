package io.plumbline.jieba;

import org.apache.lucene.analysis.Tokenizer;
import org.elasticsearch.plugin.Inject;
import org.elasticsearch.plugin.NamedComponent;
import org.elasticsearch.plugin.analysis.TokenizerFactory;

/** {@code jieba_index}: the words and the words inside them, for indexing. */
@NamedComponent("jieba_index")
public final class JiebaIndexTokenizerFactory implements TokenizerFactory {
  private final JiebaSettings settings;

  @Inject
  public JiebaIndexTokenizerFactory(JiebaSettings settings) {
    this.settings = settings;
  }

  @Override
  public Tokenizer create() {
    return new JiebaTokenizer(new Segmenter(Dictionary.shared(), Mode.INDEX, settings.hmm()));
  }
}
