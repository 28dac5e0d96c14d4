import com.huaban.analysis.jieba.JiebaSegmenter;
import io.plumbline.jieba.JiebaSearchTokenizerFactory;
import io.plumbline.jieba.JiebaSettings;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.StringReader;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.ToLongFunction;
import org.apache.lucene.analysis.Tokenizer;
import org.apache.lucene.analysis.cn.smart.HMMChineseTokenizer;
import org.apache.lucene.analysis.tokenattributes.CharTermAttribute;

/**
 * The Java side of {@code bench/segmentation}: cuts the lines of a file when it is told to.
 *
 * <p>Reads names of cutters from standard input, one a line, and answers each with the CPU seconds of the thread for one
 * round over all texts. The first line of output is the memory of our dictionary, in bytes.
 */
public final class SegmentationRace {
  private record Settings(boolean hmm) implements JiebaSettings {
    @Override
    public List<String> userWords() {
      return List.of();
    }
  }

  public static void main(String[] args) throws IOException {
    PrintStream out = System.out;
    System.setOut(System.err); // com.huaban reports there what it loads
    List<String> texts = Files.readAllLines(Path.of(args[0]));
    long before = usedMemory();
    Tokenizer ours = new JiebaSearchTokenizerFactory(new Settings(false)).create();
    Tokenizer oursWithHmm = new JiebaSearchTokenizerFactory(new Settings(true)).create();
    out.println(usedMemory() - before);
    Tokenizer smartcn = new HMMChineseTokenizer();
    JiebaSegmenter huaban = new JiebaSegmenter();
    Map<String, ToLongFunction<String>> cutters = new TreeMap<>();
    cutters.put("ours", text -> cut(ours, text));
    cutters.put("ours_hmm", text -> cut(oursWithHmm, text));
    cutters.put("smartcn", text -> cut(smartcn, text));
    cutters.put("huaban_hmm", text -> huaban.process(text, JiebaSegmenter.SegMode.SEARCH).size());
    BufferedReader names = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String name = names.readLine(); name != null; name = names.readLine()) {
      out.println(secondsToCut(texts, cutters.get(name)));
    }
  }

  private static double secondsToCut(List<String> texts, ToLongFunction<String> cutter) {
    ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    long began = threads.getCurrentThreadCpuTime();
    long tokens = texts.stream().mapToLong(cutter).sum();
    long nanos = threads.getCurrentThreadCpuTime() - began;
    if (tokens == 0) {
      throw new IllegalStateException("nothing was cut");
    }
    return nanos / 1e9;
  }

  private static long cut(Tokenizer tokenizer, String text) {
    CharTermAttribute term = tokenizer.getAttribute(CharTermAttribute.class);
    long length = 0;
    try {
      tokenizer.setReader(new StringReader(text));
      tokenizer.reset();
      while (tokenizer.incrementToken()) {
        length += term.length();
      }
      tokenizer.end();
      tokenizer.close();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return length;
  }

  private static long usedMemory() {
    for (int i = 0; i < 3; i++) {
      System.gc();
    }
    return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
  }
}
