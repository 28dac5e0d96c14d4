/** What the tokenizers and filters share: reading a text in pieces, tokens with their places, and the generated tables. */
package io.plumbline.analysis;
