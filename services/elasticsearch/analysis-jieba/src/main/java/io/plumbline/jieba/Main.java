package io.plumbline.jieba;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.Reader;
import java.io.StringReader;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import org.apache.lucene.analysis.Tokenizer;
import org.apache.lucene.analysis.tokenattributes.CharTermAttribute;
import org.apache.lucene.analysis.tokenattributes.OffsetAttribute;
import org.apache.lucene.analysis.tokenattributes.PositionIncrementAttribute;

/**
 * The tokenizers without a node, to compare them with jieba.
 *
 * <p>Usage: {@code Main MODE [hmm]}, MODE in lower case. Reads texts in UTF-8 that end in a line feed each, and writes for
 * each a JSON array of tokens: {@code [[token, start, end, position], …]}.
 */
public final class Main {
  private Main() {}

  public static void main(String[] args) throws IOException {
    Mode mode = Mode.valueOf(args[0].toUpperCase(Locale.ROOT));
    boolean hmm = List.of(args).contains("hmm");
    Tokenizer tokenizer = new JiebaTokenizer(new Segmenter(Dictionary.shared(), mode, hmm));
    try (Reader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Writer out = new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8))) {
      for (String text = readText(in); text != null; text = readText(in)) {
        writeTokens(text, tokenizer, out);
      }
    }
  }

  /** The characters up to the next line feed, and to no other line end. */
  private static String readText(Reader in) throws IOException {
    StringBuilder text = new StringBuilder();
    int c;
    while ((c = in.read()) != '\n') {
      if (c < 0) {
        return text.isEmpty() ? null : text.toString();
      }
      text.append((char) c);
    }
    return text.toString();
  }

  private static void writeTokens(String text, Tokenizer tokenizer, Writer out) throws IOException {
    CharTermAttribute term = tokenizer.getAttribute(CharTermAttribute.class);
    OffsetAttribute offsets = tokenizer.getAttribute(OffsetAttribute.class);
    PositionIncrementAttribute increment = tokenizer.getAttribute(PositionIncrementAttribute.class);
    tokenizer.setReader(new StringReader(text));
    tokenizer.reset();
    int position = -1;
    String separator = "";
    out.write('[');
    while (tokenizer.incrementToken()) {
      position += increment.getPositionIncrement();
      out.write(separator + "[" + quoted(term));
      out.write(", " + offsets.startOffset() + ", " + offsets.endOffset() + ", " + position + "]");
      separator = ", ";
    }
    out.write("]\n");
    tokenizer.end();
    tokenizer.close();
  }

  private static String quoted(CharSequence token) {
    StringBuilder json = new StringBuilder("\"");
    for (int i = 0; i < token.length(); i++) {
      char c = token.charAt(i);
      if (c == '"' || c == '\\') {
        json.append('\\').append(c);
      } else if (c < ' ' || Character.isSurrogate(c)) {
        json.append("\\u").append(HexFormat.of().toHexDigits(c));
      } else {
        json.append(c);
      }
    }
    return json.append('"').toString();
  }
}
