package io.plumbline.jieba;

import org.elasticsearch.plugin.settings.AnalysisSettings;
import org.elasticsearch.plugin.settings.BooleanSetting;

/** What can be set on the jieba tokenizers. */
@AnalysisSettings
public interface JiebaSettings {
  /** Whether the hidden Markov model makes words that no dictionary has. Without it searches find more. */
  @BooleanSetting(path = "hmm", defaultValue = false)
  boolean hmm();
}
