/**
 * Folds what a reader takes for the same writing, before the text is cut: widths and compatibility forms ({@link
 * io.plumbline.fold.WidthFilter}), traditional and simplified characters ({@link io.plumbline.fold.ScriptFilter}). Case is
 * left alone.
 */
package io.plumbline.fold;
