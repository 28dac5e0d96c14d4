"""The extractor's exceptions.

ExtractorError
└── NotText      the payload is no text that can be read (an image, an archive, an unknown type)
"""

from __future__ import annotations


class ExtractorError(Exception):
    """Root of all that the extractor raises on purpose. The message is one sentence for the owner."""


class NotText(ExtractorError):
    """The payload is no text that can be read."""
