/** Chinese text in characters or pairs of them, without any dictionary, beside the words that {@code jieba} finds. */
package io.plumbline.grams;
