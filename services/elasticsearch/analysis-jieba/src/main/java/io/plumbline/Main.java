package io.plumbline;

import io.plumbline.fold.Folding;
import io.plumbline.grams.BigramTokenizerFactory;
import io.plumbline.grams.CharacterTokenizerFactory;
import io.plumbline.jieba.JiebaAllTokenizerFactory;
import io.plumbline.jieba.JiebaIndexTokenizerFactory;
import io.plumbline.jieba.JiebaSearchTokenizerFactory;
import io.plumbline.jieba.JiebaSettings;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.Reader;
import java.io.StringReader;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.lucene.analysis.Tokenizer;
import org.apache.lucene.analysis.tokenattributes.CharTermAttribute;
import org.apache.lucene.analysis.tokenattributes.OffsetAttribute;
import org.apache.lucene.analysis.tokenattributes.PositionIncrementAttribute;

/**
 * The tokenizers without a node, to compare them with what they are modelled on.
 *
 * <p>Usage: {@code Main TOKENIZER [--hmm] [--fold] [USER_WORD…]}. Reads texts in UTF-8 that end in a line feed each, and
 * writes for each a JSON array of tokens: {@code [[token, start, end, position], …]}.
 */
public final class Main {
  private Main() {}

  private record Settings(boolean hmm, List<String> userWords) implements JiebaSettings {}

  public static void main(String[] args) throws IOException {
    List<String> rest = new ArrayList<>(List.of(args));
    String name = rest.removeFirst();
    boolean hmm = rest.remove("--hmm");
    boolean fold = rest.remove("--fold");
    Tokenizer tokenizer = tokenizer(name, new Settings(hmm, rest));
    try (Reader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Writer out = new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8))) {
      for (String text = readText(in); text != null; text = readText(in)) {
        Reader reader = new StringReader(text);
        tokenizer.setReader(fold ? Folding.reader(reader, true, true) : reader);
        writeTokens(tokenizer, out);
      }
    }
  }

  private static Tokenizer tokenizer(String name, JiebaSettings settings) {
    return switch (name) {
      case "jieba_all" -> new JiebaAllTokenizerFactory(settings).create();
      case "jieba_index" -> new JiebaIndexTokenizerFactory(settings).create();
      case "jieba_search" -> new JiebaSearchTokenizerFactory(settings).create();
      case "chinese_bigram" -> new BigramTokenizerFactory().create();
      case "chinese_char" -> new CharacterTokenizerFactory().create();
      default -> throw new IllegalArgumentException("there is no tokenizer " + name);
    };
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

  private static void writeTokens(Tokenizer tokenizer, Writer out) throws IOException {
    CharTermAttribute term = tokenizer.getAttribute(CharTermAttribute.class);
    OffsetAttribute offsets = tokenizer.getAttribute(OffsetAttribute.class);
    PositionIncrementAttribute increment = tokenizer.getAttribute(PositionIncrementAttribute.class);
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
