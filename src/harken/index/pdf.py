"""The text of PDF files, page by page."""

from __future__ import annotations

import logging
from io import BytesIO

from harken.errors import MissingExtraError

# What a damaged file makes the reader stumble over, beside its own errors.
_STUMBLES = (ValueError, TypeError, KeyError, IndexError, AttributeError, OSError, RecursionError, ArithmeticError)


class UnreadablePdfError(Exception):
    """A PDF file that gives no text.

    Attributes:
        reason: `encrypted` or `broken`.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def read_pages(data: bytes) -> list[str]:
    """The text of each page; empty for one that holds only pictures.

    Raises:
        MissingExtraError: no PDF reader is installed.
        UnreadablePdfError: the file is encrypted or broken.
    """
    try:
        from pypdf import PasswordType, PdfReader
        from pypdf.errors import DependencyError, FileNotDecryptedError, PyPdfError
    except ImportError as error:
        raise MissingExtraError("Reading PDF files", "pdf") from error
    # It tells of every oddity that it reads around, with words of the document.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = PdfReader(BytesIO(data), strict=False)
        if reader.is_encrypted and reader.decrypt("") is PasswordType.NOT_DECRYPTED:
            raise UnreadablePdfError("encrypted")
        return [page.extract_text() for page in reader.pages]
    except (DependencyError, FileNotDecryptedError) as error:
        raise UnreadablePdfError("encrypted") from error
    except (PyPdfError, *_STUMBLES) as error:
        raise UnreadablePdfError("broken") from error
