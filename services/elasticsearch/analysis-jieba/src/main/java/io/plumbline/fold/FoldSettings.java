package io.plumbline.fold;

import org.elasticsearch.plugin.settings.AnalysisSettings;
import org.elasticsearch.plugin.settings.BooleanSetting;

/** What can be set on {@code chinese_fold}. */
@AnalysisSettings
public interface FoldSettings {
  /** Whether widths and compatibility forms are folded. */
  @BooleanSetting(path = "width", defaultValue = true)
  boolean width();

  /** Whether traditional characters become simplified ones. */
  @BooleanSetting(path = "script", defaultValue = true)
  boolean script();
}
