package io.plumbline.synonyms;

import java.util.List;
import org.elasticsearch.plugin.settings.AnalysisSettings;
import org.elasticsearch.plugin.settings.BooleanSetting;
import org.elasticsearch.plugin.settings.ListSetting;
import org.elasticsearch.plugin.settings.StringSetting;

/** What can be set on {@code chinese_synonym}. All but the rules say how the analyzer that it stands in cuts a text. */
@AnalysisSettings
public interface SynonymSettings {
  /** Rules in Solr's form: {@code a, b, c} (each stands for all) or {@code a, b => c} (what is left becomes what is right). */
  @ListSetting(path = "synonyms")
  List<String> synonyms();

  /** The tokenizer of the analyzer: {@code jieba_search}, {@code chinese_bigram} or {@code chinese_char}. */
  @StringSetting(path = "tokenizer", defaultValue = "jieba_search")
  String tokenizer();

  /** Whether {@code chinese_fold} goes before it. */
  @BooleanSetting(path = "fold", defaultValue = true)
  boolean fold();

  /** As set on the tokenizer. */
  @BooleanSetting(path = "hmm", defaultValue = false)
  boolean hmm();

  /** As set on the tokenizer. */
  @ListSetting(path = "user_words")
  List<String> userWords();
}
