package io.plumbline.jieba;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** Reads the tables that the build packed beside the classes. */
final class Tables {
  private Tables() {}

  static List<String> lines(String name) {
    try (InputStream stream = Tables.class.getResourceAsStream(name)) {
      if (stream == null) {
        throw new IllegalStateException("the plugin was built without its table " + name);
      }
      return new BufferedReader(new InputStreamReader(stream, StandardCharsets.UTF_8)).lines().toList();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
