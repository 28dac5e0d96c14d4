package io.plumbline.jieba;

import org.apache.lucene.analysis.Tokenizer;
import org.elasticsearch.plugin.Inject;
import org.elasticsearch.plugin.NamedComponent;
import org.elasticsearch.plugin.analysis.TokenizerFactory;

/** {@code jieba_index}: the words and the words inside them, for indexing. */
@NamedComponent("jieba_index")
public final class JiebaIndexTokenizerFactory implements TokenizerFactory {
  private final UserWords words;
  private final boolean hmm;

  @Inject
  public JiebaIndexTokenizerFactory(JiebaSettings settings) {
    words = UserWords.of(settings.userWords());
    hmm = settings.hmm();
  }

  @Override
  public Tokenizer create() {
    return new JiebaTokenizer(words, Mode.INDEX, hmm);
  }
}
