package io.plumbline.synonyms;

import java.io.IOException;
import java.io.StringReader;
import java.text.ParseException;
import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.synonym.SolrSynonymParser;
import org.apache.lucene.analysis.synonym.SynonymGraphFilter;
import org.apache.lucene.analysis.synonym.SynonymMap;
import org.elasticsearch.plugin.Inject;
import org.elasticsearch.plugin.NamedComponent;
import org.elasticsearch.plugin.analysis.AnalysisMode;
import org.elasticsearch.plugin.analysis.TokenFilterFactory;

/**
 * {@code chinese_synonym}: Lucene's {@link SynonymGraphFilter} with rules that are cut as the text is, so that terms of
 * several words hold on either side. It stands behind {@code lowercase}, and only in search analyzers: an index keeps no
 * token graphs.
 */
@NamedComponent("chinese_synonym")
public final class SynonymFilterFactory implements TokenFilterFactory {
  private final SynonymMap rules;

  @Inject
  public SynonymFilterFactory(SynonymSettings settings) {
    SolrSynonymParser parser = new SolrSynonymParser(true, true, new RuleAnalyzer(settings));
    for (String rule : settings.synonyms()) {
      parse(rule, parser);
    }
    try {
      rules = parser.build();
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  private static void parse(String rule, SolrSynonymParser parser) {
    try {
      parser.parse(new StringReader(rule));
    } catch (IOException | ParseException e) {
      throw new IllegalArgumentException(
          "synonyms: [" + rule + "] is not of the form a, b or a => b: " + e.getCause().getMessage(), e);
    }
  }

  @Override
  public TokenStream create(TokenStream input) {
    return rules.fst == null ? input : new SynonymGraphFilter(input, rules, false);
  }

  @Override
  public AnalysisMode getAnalysisMode() {
    return AnalysisMode.SEARCH_TIME;
  }
}
