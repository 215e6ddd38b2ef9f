"""The files of price lists: the built-in one, and a newer one from an update.

The later of the two is used, so that an old update does not hide the list of a new release. An invalid file in the data
folder is an error and is not ignored: prices would change without notice. It is replaced atomically, and is private to
its owner.
"""

import os
from importlib.resources import files
from pathlib import Path

from streamweir.policy.pricing.pricelist import InvalidPrices, PriceList, decode_list, decode_version, encode_list

FILE = "prices.json"
MAX_BYTES = 16 << 20


class PriceFileError(Exception):
    """One line for the operator: the file, and what is wrong with it."""


def load_prices(data_dir: Path | None) -> tuple[PriceList, Path | None]:
    """The list in force and its path; None: the built-in one. Raises `PriceFileError`."""
    own = _builtin()
    if data_dir is not None:
        file = data_dir / FILE
        data = _read(file)
        if data is not None:
            price_list = _decoded(data, file)
            if price_list.version[:10] >= decode_version(own)[:10]:
                return price_list, file
    return decode_list(own, is_trusted=True), None


def builtin_version() -> str:
    return decode_version(_builtin())


def save_prices(price_list: PriceList, data_dir: Path) -> Path:
    """For the next start or reload. Raises `PriceFileError`."""
    file = data_dir / FILE
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(file, encode_list(price_list))
    except OSError as reason:
        raise PriceFileError(f"{file}: cannot be written: {reason.strerror}") from None
    return file


def _replace(file: Path, data: bytes) -> None:
    """Written completely and synced before it gets its name."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_bounded(file: Path) -> bytes:
    """Raises `PriceFileError`."""
    data = _read(file)
    if data is None:
        raise PriceFileError(f"{file}: there is no such file")
    return data


def _builtin() -> bytes:
    return files("streamweir.store.prices").joinpath(FILE).read_bytes()


def _read(file: Path) -> bytes | None:
    try:
        with file.open("rb") as source:
            data = source.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as reason:
        raise PriceFileError(f"{file}: cannot be read: {reason.strerror}") from None
    if len(data) > MAX_BYTES:
        raise PriceFileError(f"{file}: is larger than {MAX_BYTES >> 20} MiB")
    return data


def _decoded(data: bytes, file: Path) -> PriceList:
    try:
        return decode_list(data)
    except InvalidPrices as reason:
        advice = "`streamweir prices update` replaces it; without the file the built-in prices are used"
        raise PriceFileError(f"{file}: {reason} ({advice})") from None
