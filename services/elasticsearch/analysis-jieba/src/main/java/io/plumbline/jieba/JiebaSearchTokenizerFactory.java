package io.plumbline.jieba;

import org.apache.lucene.analysis.Tokenizer;
import org.elasticsearch.plugin.Inject;
import org.elasticsearch.plugin.NamedComponent;
import org.elasticsearch.plugin.analysis.TokenizerFactory;

/** {@code jieba_search}: the words, for queries. */
@NamedComponent("jieba_search")
public final class JiebaSearchTokenizerFactory implements TokenizerFactory {
  private final UserWords words;
  private final boolean hmm;

  @Inject
  public JiebaSearchTokenizerFactory(JiebaSettings settings) {
    words = UserWords.of(settings.userWords());
    hmm = settings.hmm();
  }

  @Override
  public Tokenizer create() {
    return new JiebaTokenizer(words, Mode.SEARCH, hmm);
  }
}
