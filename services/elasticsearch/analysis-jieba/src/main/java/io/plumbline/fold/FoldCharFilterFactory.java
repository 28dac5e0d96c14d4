package io.plumbline.fold;

import java.io.Reader;
import org.elasticsearch.plugin.Inject;
import org.elasticsearch.plugin.NamedComponent;
import org.elasticsearch.plugin.analysis.CharFilterFactory;

/** {@code chinese_fold}: one writing for all widths and for both scripts, with the offsets of the original. */
@NamedComponent("chinese_fold")
public final class FoldCharFilterFactory implements CharFilterFactory {
  private final FoldSettings settings;

  @Inject
  public FoldCharFilterFactory(FoldSettings settings) {
    this.settings = settings;
  }

  @Override
  public Reader create(Reader reader) {
    return Folding.reader(reader, settings.width(), settings.script());
  }

  @Override
  public Reader normalize(Reader reader) {
    return create(reader);
  }
}
