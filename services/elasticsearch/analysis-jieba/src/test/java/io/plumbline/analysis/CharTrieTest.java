package io.plumbline.analysis;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.lucene.tests.util.LuceneTestCase;
import org.apache.lucene.tests.util.TestUtil;

public class CharTrieTest extends LuceneTestCase {
  public void testItHoldsWhatAMapHolds() {
    Map<String, Integer> map = new HashMap<>();
    Set<String> prefixes = new HashSet<>();
    for (int i = 0; i < 2000; i++) {
      String key = TestUtil.randomSimpleString(random(), 1, 5) + TestUtil.randomRealisticUnicodeString(random(), 1, 4);
      key = key.replace('\0', '0');
      map.put(key, 1 + random().nextInt(70_000));
      for (int length = 1; length <= key.length(); length++) {
        prefixes.add(key.substring(0, length));
      }
    }
    CharTrie trie = new CharTrie(prefixes.size());
    map.forEach(trie::put);
    for (String prefix : prefixes) {
      int node = trie.find(prefix.toCharArray(), 0, prefix.length());
      assertEquals(map.getOrDefault(prefix, 0).intValue(), trie.value(node));
      String other = prefix + (char) (1 + random().nextInt(0xFFFF));
      boolean isThere = trie.find(other.toCharArray(), 0, other.length()) != CharTrie.NOWHERE;
      assertEquals(prefixes.contains(other), isThere);
    }
  }

  public void testAnEmptyOneLeadsNowhere() {
    CharTrie trie = new CharTrie(0);
    assertEquals(CharTrie.NOWHERE, trie.step(CharTrie.ROOT, 'a'));
    assertEquals(CharTrie.NOWHERE, trie.step(CharTrie.ROOT, '\0'));
  }
}
