"""Files of torch.save: what torch 2.13 wrote is read, and what is written it reads."""

from __future__ import annotations

import base64
import io
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

import treadle as td
from tests.io.hostile_torch import (
    archive,
    call,
    named,
    number,
    numbers,
    storage,
    tensor,
)
from treadle.base import dtypes

WHOLE = np.arange(6.0, dtype=np.float32).reshape(2, 3)


def test_views_of_one_storage_are_told_apart(tmp_path: Path) -> None:
    """A matrix, its transpose, a row, columns, a scalar and an empty part of it."""
    parts = {
        "whole": (numbers(2, 3), numbers(3, 1), 0, WHOLE),
        "transposed": (numbers(3, 2), numbers(1, 3), 0, WHOLE.T),
        "row": (numbers(3), numbers(1), 3, WHOLE[1]),
        "columns": (numbers(2, 2), numbers(3, 2), 0, WHOLE[:, ::2]),
        "scalar": (b")", b")", 5, WHOLE[1, 2]),
        "expanded": (numbers(4, 2), numbers(0, 3), 1, np.tile(WHOLE[:, 1], (4, 1))),
        "empty": (numbers(0, 3), numbers(3, 1), 6, WHOLE[:0]),
    }
    codes = b"}"
    for name, (shape, strides, offset, _) in parts.items():
        value = tensor(shape=shape, strides=strides, offset=number(offset))
        codes += named(value, name)[1:]
    (tmp_path / "a.pt").write_bytes(archive(codes))
    for copy in (True, False):
        found = td.load(tmp_path / "a.pt", copy=copy)
        assert list(found) == list(parts)
        for name, (*_, expected) in parts.items():
            np.testing.assert_array_equal(found[name], expected)
            assert copy or not found[name].flags.writeable


def test_what_else_a_checkpoint_holds() -> None:
    """Parameters, dtypes told with a tensor, settings as metadata."""
    parameter = call("torch._utils._rebuild_parameter", tensor(), b"\x88", b"N")
    hooks = call("collections.OrderedDict")
    wide = call(
        "torch._utils._rebuild_tensor_v3",
        storage("torch.storage.UntypedStorage"), number(0), numbers(3), numbers(1),
        b"\x89", hooks, b"ctorch\nuint16\n",
    )  # fmt: skip
    state = call("collections.OrderedDict") + named(tensor(), "w")[1:] + b"}b"
    codes = b"}" + b"".join(
        named(value, name)[1:]
        for name, value in {
            "net": state,
            "list": b"]" + parameter + b"a" + wide + b"a",
            "lr": b"G?\xe0\0\0\0\0\0\0",
            "epoch": number(2**40),
            "size": call("torch.Size", numbers(2, 3)),
            "device": call("torch.device", b"X\4\0\0\0cuda", number(1)),
            "dtype": b"ctorch\nfloat32\n",
            "none": b"N",
        }.items()
    )
    found = td.load(archive(codes), format=".pt")
    assert list(found) == ["net.w", "list.0", "list.1"]
    assert found["list.1"].dtype == np.uint16 and found["list.1"].shape == (3,)
    assert found.metadata == {
        "lr": "0.5", "epoch": str(2**40), "size.0": "2", "size.1": "3",
        "device": "cuda:1",
    }  # fmt: skip


def test_a_tensor_alone_has_a_name() -> None:
    assert list(td.load(archive(tensor()), format="pt")) == ["tensor"]


@pytest.mark.parametrize("ending", [".pt", ".pth"])
def test_a_network_takes_a_state_of_torchs(tmp_path: Path, ending: str) -> None:
    net, other = td.nn.Linear(3, 2), td.nn.Linear(3, 2)
    td.save(tmp_path / f"a{ending}", {"model": net, "bias": np.ones(2)})
    keys = td.load(tmp_path / f"a{ending}", other, prefix="model.").keys_left
    assert keys == td.nn.Linear(3, 2).load_state_dict(net.state_dict())
    assert bool((net.weight == other.weight).all())
    third = td.nn.Linear(3, 2)
    third.load_state_dict(td.load(tmp_path / f"a{ending}"), prefix="model.")
    assert bool((net.weight == third.weight).all())
    with pytest.raises(td.ModelFileError, match=r"missing: .*weight"):
        td.load(tmp_path / f"a{ending}", other)
    (tmp_path / "none").write_bytes((tmp_path / f"a{ending}").read_bytes())
    assert "bias" in td.load(tmp_path / "none")  # known by how it begins


# torch.save of {"w": a float32 matrix, "wT": its transpose, "half": bfloat16,
# "steps": 3} by torch 2.13, compressed.
SAVED = (
    "c-p0vzi-n(6vxkY;sh7cAC#soP%#Fnq_LAGDHWtL$cqO;04cCUuH)7gZro>IT7iTV3AIwU!XJPbn"
    "OI@wKY*Ey0U-t^cJAzw+Ac{;d&>Eg_`cu!Jiqsxy2>RGN~h70F@`3P=IW-kWh}HctmQYK+KQY(Pa"
    ">noz5tYKGDNTqjE)_m$hW%KvOS^Y8mnE)Znv<}@f^3cB?-Xha?KRk?2(<?x&d4u5ft0e@Ppt-0TR"
    "Ap0g_FQtomjbc$LSHy00RYRk>YAtDMU0!nr+NcWm3xvE_6;;hx(zT%&#0(y;)-^#+V!INyK^O_t("
    "4gp5g!H#sw5CQaXPlp1m>y9;9~Lw(2hOsbo}aIpcCP4Z}vso86ADNr83%08`F?(<Ihydq?YEsJ5="
    "=iGrAmDz#W!16MND-F2XO!~nan;y)mTsL1=Q)&6r<1Z`3fX@2Bd}PsbKOgxu$KB9yYs+vw61gH*V"
    "re<?5GlZiUteF+0O%YHFpDaO00;SNX|}cA*)Td-k&CBcD3>TeZ5w{j9I-<I#!;;gu=)%e4o$ZrFP"
    "}DcI&2GL+n@|Px4zBr<P?4=Lk8WBbj3nJk#C*>AaL!~$Yq6m$n25%c7+mU_rJfICO4*!A)1d8iHe"
    "*%F;TB}%|Gkodl%7aPYgY4G?amU?VaiQ7X^Cy=Qrz*j?e!bk`4>d57jeVi&WrqjrM=bYAbU7KVb@"
    "sWl=0t7o}oZTq;)zi_%g_ER-a%RIQSG#Y(j(iItK>DH}iGcaCu6d`gDG_Bq2nJa&XU{vM61!wr~?"
    "DEApOsO#e<;U=1mHV%u1bZ*=y+z8_lpVuLuegnqk;i}C<<Wn4q^-f$HuEMDHU0f^1wc#2Xjc6wmC"
    "|<R3aX7Ve(U?Qxe-~X{<@x!)CCc6CE7P%cgbmheGFXX@{u81*so;C?_D%AEChhMJ_Wl92sH^t"
)


def test_a_file_that_torch_wrote() -> None:
    found = td.load(zlib.decompress(base64.b85decode(SAVED)), format=".pt")
    np.testing.assert_array_equal(found["w"], WHOLE)
    np.testing.assert_array_equal(found["wT"], WHOLE.T)
    assert found["half"].dtype == dtypes.bfloat16
    assert found["half"].astype("f4").tolist() == [1.0, 2.5]
    assert found.metadata == {"steps": "3"}


def test_what_is_written_has_the_codes_of_torch() -> None:
    file = io.BytesIO()
    td.save(file, {"w": WHOLE}, format=".pt", metadata={"made by": "hand"})
    made = zipfile.ZipFile(io.BytesIO(file.getvalue()))
    assert set(made.namelist()) == {
        f"archive/{n}"
        for n in ("data.pkl", "byteorder", "data/0", "version", ".treadle.json")
    }
    pickle = made.read("archive/data.pkl")
    assert pickle.startswith(b"\x80\2}(X\1\0\0\0wctorch._utils\n_rebuild_tensor_v2\n")
    assert made.read("archive/data/0") == WHOLE.tobytes()
