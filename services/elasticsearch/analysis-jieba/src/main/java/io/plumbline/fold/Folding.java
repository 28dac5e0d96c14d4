package io.plumbline.fold;

import java.io.IOException;
import java.io.Reader;
import java.io.StringReader;
import java.io.StringWriter;
import java.io.UncheckedIOException;

/** All of the folding on a short text, for words that are compared with folded texts. */
public final class Folding {
  private Folding() {}

  public static String fold(String text) {
    try (Reader reader = reader(new StringReader(text), true, true)) {
      StringWriter folded = new StringWriter();
      reader.transferTo(folded);
      return folded.toString();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  public static Reader reader(Reader text, boolean width, boolean script) {
    Reader ofWidth = width ? new WidthFilter(text) : text;
    return script ? new ScriptFilter(ofWidth) : ofWidth;
  }
}
