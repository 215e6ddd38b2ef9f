"""What an address of the form `data:` holds."""

import pytest

from streamweir.providers.dataurl import read_data_url


@pytest.mark.parametrize(
    ("url", "held"),
    [
        ("data:image/png;base64,iVBO", ("image/png", "iVBO")),
        ("DATA:Image/PNG;x=y; BASE64,iVBO", ("image/png", "iVBO")),
        ("data:image/jpg;base64,/9j/", ("image/jpeg", "/9j/")),
        ("data:;base64,aGk=", ("text/plain", "aGk=")),
        ("data:,hi", ("text/plain", "aGk=")),
        ("data:image/svg+xml,%3Csvg/%3E", ("image/svg+xml", "PHN2Zy8+")),
        ("data:text/plain;charset=utf-8,a,b", ("text/plain", "YSxi")),
        ("data:image/png", None),
        ("https://x.test/a.png", None),
        ("", None),
    ],
)
def test_read_data_url(url: str, held: tuple[str, str] | None) -> None:
    assert read_data_url(url) == held
