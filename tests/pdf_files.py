"""Small PDF files with text, written by hand: readers make none."""

from __future__ import annotations


def written_pdf(*pages: str) -> bytes:
    """A file whose pages each show one line."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        shown = f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET"
        font = "/Resources << /Font << /F1 3 0 R >> >>"
        content = f"/Contents {5 + 2 * number} 0 R"
        objects.append(f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] {font} {content} >>")
        objects.append(f"<< /Length {len(shown)} >>\nstream\n{shown}\nendstream")
    body = b"%PDF-1.4\n"
    offsets = []
    for number, written in enumerate(objects, start=1):
        offsets.append(len(body))
        body += f"{number} 0 obj\n{written}\nendobj\n".encode()
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    trailer = f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(body)}\n%%EOF\n"
    return body + f"xref\n0 {size}\n0000000000 65535 f \n{table}{trailer}".encode()
