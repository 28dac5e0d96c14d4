package io.plumbline;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import org.apache.lucene.tests.util.LuceneTestCase;
import org.elasticsearch.plugin.NamedComponent;

/** What the node is told of the plugin, and what the classes say of themselves. */
public class NamedComponentsTest extends LuceneTestCase {
  private static final Pattern COMPONENT = Pattern.compile("\"(\\w+)\": \"([\\w.]+)\"");

  public void testTheListNamesEachComponentAsItsClassDoes() throws Exception {
    String list = Files.readString(Path.of("src/main/plugin/named_components.json"));
    Map<String, String> components = new TreeMap<>();
    for (MatchResult component : COMPONENT.matcher(list).results().toList()) {
      Class<?> type = Class.forName(component.group(2));
      components.put(component.group(1), type.getAnnotation(NamedComponent.class).value());
    }
    assertEquals(7, components.size());
    components.forEach((name, ofClass) -> assertEquals(name, ofClass));
  }
}
