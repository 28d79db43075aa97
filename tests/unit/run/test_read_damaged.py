"""Files that are cut, changed or lie: a DataError, or data that fit together; nothing else."""

from __future__ import annotations

import gzip
import io
import random
from itertools import product

import numpy as np
import pytest
from scipy import sparse

from spfgen.errors import DataError
from spfgen.run.coordinates import Coordinates
from spfgen.run.files.read import read

PIECES = (
    "0|-1|nan|inf|1e999| |\n|\r\n|\t|%|#|1.5|1D5|+|99999999999999999999|9223372036854775807|4294967296|array|symmetric"
    "|1_0|0x1|\x0b|\x0c|1e-400|--1|(1,2)|1 2 3\n"
).split("|")
FIELDS = {"real": "1.5", "integer": "-3", "complex": "1 2", "pattern": "", "unsigned-integer": "3"}


def archive(matrix) -> bytes:
    stream = io.BytesIO()
    sparse.save_npz(stream, matrix, compressed=False)
    return stream.getvalue()


def healthy() -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for (field, value), symmetry in product(FIELDS.items(), ("general", "symmetric", "skew-symmetric", "hermitian")):
        head = f"%%MatrixMarket matrix {{}} {field} {symmetry}\n% c\n"
        text = head.format("coordinate") + f"3 3 2\n2 1 {value}\n3 1 {value}\n"
        files[f"{field}-{symmetry}.mtx"] = text.encode()
        files[f"{field}-{symmetry}-array.mtx"] = (head.format("array") + "2 2\n" + f"{value}\n" * 3).encode()
    files["plain.tns"] = b"1 1 1 1.5\n2 3 1 -2e3\n"
    files["header.tns"] = b"3 2\n4 4 4\n1 1 1 1.5\n2 3 1 -2e3\n"
    files["comment.tns"] = b"# spfgen shape: 3 4\n1 1 2\n"
    files["packed.mtx.gz"] = gzip.compress(files["real-general.mtx"])
    files["packed.tns.gz"] = gzip.compress(files["plain.tns"])
    for form in ("csr", "coo", "bsr", "dia"):
        files[f"{form}.npz"] = archive(sparse.coo_array(np.array([[0, 1.5, 0], [2, 0, -3]])).asformat(form))
    stream = io.BytesIO()
    np.save(stream, np.arange(6.0).reshape(2, 3))
    files["x.npy"] = stream.getvalue()
    return files


FILES = healthy()


def check(path, content: bytes) -> bool:
    """Read the content; whether it could be read."""
    path.write_bytes(content)
    refusal = ""
    try:
        data = read(str(path))
    except DataError as error:
        refusal = str(error)
    if refusal:
        assert path.name in refusal
        assert len(refusal) < 600
        return False
    if isinstance(data, Coordinates):  # its own check: int64, of one length, within the shape
        Coordinates(data.shape, data.coords, data.values)
    else:
        assert data.dtype.kind in "biufc"
        assert data.dtype.isnative
    return True


@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore:Reading `.npy`")
@pytest.mark.parametrize("name", FILES)
def test_damaged_files(tmp_path, name) -> None:
    content = FILES[name]
    path = tmp_path / name
    # An array of three values is not what every field and symmetry has.
    good = check(path, content)
    assert good or "array" in name or "pattern" in name or name.startswith("unsigned")
    step = max(1, len(content) // 60)
    for length in range(0, len(content), step):
        check(path, content[:length])
    dice = random.Random(name)
    for _ in range(60):
        changed = bytearray(content)
        for _ in range(dice.randint(1, 3)):
            place = dice.randint(0, len(changed))
            match dice.randint(0, 3):
                case 0:
                    changed[place : place + dice.randint(0, 3)] = dice.choice(PIECES).encode()
                case 1:
                    del changed[place : place + dice.randint(1, 4)]
                case 2:
                    changed[place:place] = changed[place : place + 5]
                case 3:
                    changed[place : place + 1] = bytes([dice.randint(0, 255)])
        check(path, bytes(changed))


def test_a_truncated_archive_is_no_shorter_matrix(tmp_path) -> None:
    """Many lines are lost, and what is left would be a valid text."""
    lines = "".join(f"{k} 1 1\n" for k in range(1, 20_001))
    packed = gzip.compress(b"%%MatrixMarket matrix coordinate real general\n20000 1 20000\n" + lines.encode())
    assert check(tmp_path / "x.mtx.gz", packed)
    assert not check(tmp_path / "x.mtx.gz", packed[: len(packed) // 2])
    assert not check(tmp_path / "x.mtx.gz", packed[:-1])
    assert not check(tmp_path / "x.tns.gz", gzip.compress(lines.encode())[:-4])
