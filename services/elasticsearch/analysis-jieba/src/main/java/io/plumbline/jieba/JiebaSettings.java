package io.plumbline.jieba;

import java.util.List;
import org.elasticsearch.plugin.settings.AnalysisSettings;
import org.elasticsearch.plugin.settings.BooleanSetting;
import org.elasticsearch.plugin.settings.ListSetting;

/** What can be set on the jieba tokenizers. */
@AnalysisSettings
public interface JiebaSettings {
  /** Whether the hidden Markov model makes words that no dictionary has. Without it searches find more. */
  @BooleanSetting(path = "hmm", defaultValue = false)
  boolean hmm();

  /** The owner's words, each in the form {@code word [frequency] [tag]}. */
  @ListSetting(path = "user_words")
  List<String> userWords();
}
