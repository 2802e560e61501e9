from __future__ import annotations

from io import BytesIO

import pytest
from pypdf import PdfWriter

from harken.sources.workspace.documents import read_pages
from harken.sources.workspace.tree import SkippedError
from pdf_files import written_pdf


def test_each_page_gives_its_text() -> None:
    assert [page.strip() for page in read_pages(written_pdf("Hello there", "Second page"))] == [
        "Hello there",
        "Second page",
    ]


def test_an_encrypted_file_says_so() -> None:
    writer = PdfWriter()
    writer.add_blank_page(100, 100)
    writer.encrypt("secret", algorithm="RC4-128")
    stream = BytesIO()
    writer.write(stream)
    with pytest.raises(SkippedError, match="encrypted"):
        read_pages(stream.getvalue())


@pytest.mark.parametrize("cut", [0, 5, 40, 200, 400])
def test_a_broken_file_is_no_crash(cut: int) -> None:
    whole = written_pdf("Hello there")
    with pytest.raises(SkippedError, match="broken"):
        read_pages(whole[:cut].replace(b"obj", b"jbo"))
