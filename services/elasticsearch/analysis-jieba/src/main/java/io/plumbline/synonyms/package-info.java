/** The owner's synonyms, as a token filter for queries. */
package io.plumbline.synonyms;
