/**
 * jieba's segmentation as Elasticsearch tokenizers, word for word what Python's jieba 0.42.1 gives.
 *
 * <p>A text goes through {@link io.plumbline.jieba.BlockReader} (where jieba starts and ends a block), {@link
 * io.plumbline.jieba.Segmenter} (the words of a block, from the {@link io.plumbline.jieba.Lexicon} and, when asked,
 * {@link io.plumbline.jieba.NewWords}) and {@link io.plumbline.jieba.JiebaTokenizer} (positions and offsets). The
 * owner's words lie over jieba's ({@link io.plumbline.jieba.UserWords}).
 */
package io.plumbline.jieba;
