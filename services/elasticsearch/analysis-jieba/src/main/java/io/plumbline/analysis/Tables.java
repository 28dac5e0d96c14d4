package io.plumbline.analysis;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** Reads the tables that {@code generate_tables.py} made for the build: records of fields between tabs. */
public final class Tables {
  private Tables() {}

  public static List<String> lines(String name) {
    try (InputStream stream = Tables.class.getResourceAsStream("/io/plumbline/tables/" + name)) {
      if (stream == null) {
        throw new IllegalStateException("the plugin was built without its table " + name);
      }
      return new BufferedReader(new InputStreamReader(stream, StandardCharsets.UTF_8)).lines().toList();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
