"""Writes the small archives in data/ that the readers of zip and tar are tested with.

    python3 archives.py

Python's own zipfile and tarfile are the outside truth here. Every member is dated 1980 so that the
files come out the same every time.
"""
import gzip
import io
import tarfile
import zipfile
from pathlib import Path

DATA = Path(__file__).parent / "data"
CONTENT = bytes(i * i // 7 % 251 for i in range(3000))


def write_zip(name: str, method: int, wide: bool) -> None:
    with zipfile.ZipFile(DATA / name, "w", method) as archive:
        for member, content in [
            ("pkg/__init__.py", b"# nothing here\n"),
            ("pkg/data/part01.bin", CONTENT),
            ("pkg/empty", b""),
        ]:
            info = zipfile.ZipInfo(member)
            info.compress_type = method
            with archive.open(info, "w", force_zip64=wide) as out:
                out.write(content)
        archive.comment = b"a comment after the directory"


def write_zip64(name: str) -> None:
    """Python only writes 64-bit directories past 4 GiB: lower its idea of that. The short form of the end
    record must then be all ones, as it would be past 4 GiB."""
    limit, zipfile.ZIP64_LIMIT = zipfile.ZIP64_LIMIT, 16
    try:
        write_zip(name, zipfile.ZIP_DEFLATED, True)
    finally:
        zipfile.ZIP64_LIMIT = limit
    data = bytearray((DATA / name).read_bytes())
    end = data.index(b"PK\x05\x06")
    data[end + 12 : end + 20] = b"\xff" * 8
    (DATA / name).write_bytes(data)
    assert zipfile.ZipFile(DATA / name).read("pkg/data/part01.bin") == CONTENT


def write_tar(name: str, layout: int) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=layout) as archive:
        folder = tarfile.TarInfo("package")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for member, content in [
            ("package/package.json", b"{}"),
            ("package/" + "/".join(["folder-with-a-name"] * 6) + "/long.part", b"found by its long name"),
            ("package/model.part", CONTENT),
            ("package/empty", b""),
        ]:
            info = tarfile.TarInfo(member)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    with open(DATA / name, "wb") as out, gzip.GzipFile(fileobj=out, mode="wb", mtime=0, filename="") as packed:
        packed.write(buffer.getvalue())


DATA.mkdir(exist_ok=True)
write_zip("stored.zip", zipfile.ZIP_STORED, False)
write_zip("deflated.zip", zipfile.ZIP_DEFLATED, False)
write_zip64("zip64.zip")
write_tar("ustar.tgz", tarfile.USTAR_FORMAT)
write_tar("gnu.tgz", tarfile.GNU_FORMAT)
write_tar("pax.tgz", tarfile.PAX_FORMAT)
