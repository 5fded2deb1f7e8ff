"""Compilation: same bits, all registers, nothing lost, nothing freed too early."""

from __future__ import annotations

import ctypes
import gc
import itertools
import mmap
import re
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from treadle.base.errors import OptionError
from treadle.engines.native.codegen import compiler, jit
from treadle.engines.native.codegen.builder import F32, F64, I64, PTR, Builder, vector
from treadle.engines.native.codegen.contraction.blocking import tile_size
from treadle.engines.native.codegen.contraction.kernel import FIELDS, FUNCTIONS
from treadle.engines.native.codegen.contraction.machine import Machine
from treadle.engines.native.codegen.contraction.parts import TileParts
from treadle.engines.native.codegen.contraction.text import table_name
from treadle.engines.native.codegen.contraction.tile import WIDEST, tile_part
from treadle.engines.native.codegen.jit import (
    assembly,
    compile_functions,
    optimized,
    parts_there,
    stats,
)
from treadle.engines.native.system.host import _quotas, cores, host

WIDTH = 16
INTEL = host().triple.startswith("x86_64")
intel = pytest.mark.skipif(not INTEL, reason="looks at instructions of x86-64")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No disk, and an empty table."""
    monkeypatch.setenv("TREADLE_CACHE", "0")
    monkeypatch.delenv("TREADLE_CPU", raising=False)
    monkeypatch.setattr(jit, "_table", type(jit._table)())
    monkeypatch.setattr(jit, "_stats", jit.CompileStats())
    yield


def three(name: str, kind: str, how: str, constant: float = 0.0) -> str:
    """r[i] = f(x[i], y[i], z[i]) for one vector of 16, pointers being the arguments."""
    b = Builder(name, [(n, PTR) for n in "xyzr"])
    wide = vector(kind, WIDTH)
    x, y, z = (b.load(wide, b.arguments[n]) for n in "xyz")
    if how == "separate":
        found = b.fadd(b.fmul(x, y), z)
    elif how == "fma":
        found = b.fma(x, y, z)
    else:
        found = b.fadd(x, b.constant(wide, constant))
    b.store(found, b.arguments["r"])
    b.ret()
    return b.text()


def call(address: int, *arrays: np.ndarray[Any, Any]) -> None:
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in arrays]
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays))(address)(*pointers)


def added(address: int) -> float:
    """What the function "constant" of `three` adds."""
    x, r = np.zeros(WIDTH, np.float32), np.ones(WIDTH, np.float32)
    call(address, x, x, x, r)
    assert (r == r[0]).all()
    return float(r[0])


def numbered(n: int) -> tuple[str, str]:
    return f"k{n}", three(f"k{n}", F32, "constant", float(n))


# -- what is computed ------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "dtype"), [(F32, np.float32), (F64, np.float64)])
def test_a_product_and_a_sum_stay_two_roundings(kind: str, dtype: Any) -> None:
    rng = np.random.default_rng(1)
    x, y, z = (rng.standard_normal((50, WIDTH)).astype(dtype) for _ in range(3))
    f = compile_functions(
        {"own": three("own", kind, "separate"), "fused": three("fused", kind, "fma")}
    )
    own, fused = np.empty_like(x), np.empty_like(x)
    for k in range(len(x)):
        call(f["own"], x[k], y[k], z[k], own[k])
        call(f["fused"], x[k], y[k], z[k], fused[k])
    np.testing.assert_array_equal(own, x * y + z)
    assert (own != fused).any()  # the difference can be seen
    if dtype is np.float32:
        exact = x.astype(np.float64) * y  # a product of two float32 is exact
        np.testing.assert_allclose(fused, exact + z, rtol=2**-24)


@intel
def test_a_product_and_a_sum_stay_two_instructions() -> None:
    lines = assembly(three("own", F32, "separate"))
    assert "vmulps" in lines or "mulps" in lines
    assert "fmadd" not in lines
    if host().has("fma"):
        assert "fmadd" in assembly(three("fused", F32, "fma"))


@intel
def test_cpu_levels_narrow_the_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    own = host().vector_bytes
    used = {}
    for level in ("", "x86-64-v4", "x86-64-v3", "x86-64-v2", "x86-64", "generic"):
        monkeypatch.setenv("TREADLE_CPU", level)
        lines = assembly(three("k", F32, "separate"))
        used[level] = 64 if "zmm" in lines else 32 if "ymm" in lines else 16
        assert host().vector_bytes == used[level]
        f = compile_functions({"k": three("k", F32, "constant", 3.0)})
        assert added(f["k"]) == 3.0
    assert used[""] == own and used["x86-64-v4"] == own
    assert used["x86-64-v3"] == min(own, 32)
    assert used["x86-64-v2"] == used["x86-64"] == used["generic"] == 16
    assert stats().compiled == len(jit.table())  # two levels are one machine


def test_a_wrong_cpu_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_CPU", "z80")
    with pytest.raises(OptionError, match="z80"):
        host()


@intel
def test_constants_are_read_by_offset() -> None:
    lines = assembly(three("k", F32, "constant", 0.1))
    assert "rip" in lines and "movabs" not in lines


def test_texts_can_be_looked_at() -> None:
    text = optimized(three("k", F32, "constant", 1.0))
    assert "nounwind" in text and host().triple in text and "fadd" in text


@pytest.mark.parametrize(
    "level", ["x86-64", ""] if INTEL else [""], ids=lambda s: s or "own"
)
def test_half_floats_are_converted_as_numpy_does(
    level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_CPU", level)
    texts = {}
    for name, source, how, target in (
        ("widen", "half", "fpext", "float"),
        ("wider", "half", "fpext", "double"),
        ("narrow", "float", "fptrunc", "half"),
        ("narrower", "double", "fptrunc", "half"),
    ):
        b = Builder(name, [("x", PTR), ("r", PTR), ("n", PTR)])
        n = b.load(I64, b.arguments["n"])
        with b.loop(b.i64(0), n, b.i64(8)) as loop:
            place = b.offset(b.arguments["x"], loop.index, source)
            x = b.convert(how, b.load(vector(source, 8), place), target)
            b.store(x, b.offset(b.arguments["r"], loop.index, target))
        b.ret()
        texts[name] = b.text()
    f = compile_functions(texts)
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    edges = halves.astype(np.float64)
    edges = edges[np.isfinite(edges)]
    beside = np.concatenate([edges, np.nextafter(edges, 9e9), (edges[:-1] + edges[1:])])
    middles = np.sort(edges)
    middles = (middles[:-1] + middles[1:]) / 2  # ties, and numbers next to them
    more = np.array([65519.99, 65520, 1e6, -1e300, np.inf, -np.inf, np.nan])
    tiny = np.random.default_rng(2).standard_normal(4096) * 1e-5
    around = (np.nextafter(middles, 9e9), np.nextafter(middles, -9e9))
    wide = np.concatenate([beside, middles, *around, tiny, more])
    wide = wide[len(wide) % 8 :]
    with np.errstate(over="ignore"):
        single = wide.astype(np.float32)
    for name, source, target in (
        ("widen", halves, np.float32),
        ("wider", halves, np.float64),
        ("narrow", single, np.float16),
        ("narrower", wide, np.float16),
    ):
        found = np.zeros(len(source), target)
        call(f[name], source, found, np.array([len(source)]))
        with np.errstate(all="ignore"):
            wanted = source.astype(target)
        assert (np.isnan(found) == np.isnan(wanted)).all(), name
        kept = ~np.isnan(wanted)  # payloads may differ
        assert found[kept].tobytes() == wanted[kept].tobytes(), name


# -- errors ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("%x = fadd i32 1, 2\n ret void", "invalid operand"),
        ("%x = nonsense i32 1\n ret void", "expected instruction"),
        (
            "br label %a\na:\n %x = add i32 %y, 1\n %y = add i32 1, 1\n ret void",
            "domin",
        ),
        ("call void @nowhere_to_be_found()\n ret void", "bad"),
    ],
)
def test_a_bad_text_raises_and_names_itself(body: str, says: str) -> None:
    text = f"declare void @nowhere_to_be_found()\ndefine void @bad() {{\n {body}\n}}\n"
    good = dict([numbered(1), numbered(2), numbered(3)])
    with pytest.raises(RuntimeError, match=f"(?is){says}") as caught:
        compile_functions({**good, "bad": text})
    assert "bad" in str(caught.value)
    assert added(compile_functions(good)["k2"]) == 2.0


# -- the table -------------------------------------------------------------------------


def test_the_same_text_is_compiled_once() -> None:
    first = compile_functions(dict([numbered(1), numbered(2)]))
    again = compile_functions(dict([numbered(2), numbered(3)]))
    assert first["k2"] == again["k2"] and stats().compiled == stats().loaded == 3
    assert {e.name: e.address for e in jit.table()} == {**first, **again}
    assert stats().functions == 3 and stats().bytes > 0


def test_one_name_may_stand_for_two_texts() -> None:
    one = compile_functions({"k": three("k", F32, "constant", 1.0)})
    two = compile_functions({"k": three("k", F32, "constant", 2.0)})
    assert (added(one["k"]), added(two["k"])) == (1.0, 2.0)


def test_texts_with_helpers_of_one_name() -> None:
    texts = {
        f"f{n}": f"define float @helper() {{\n ret float {n}.0\n}}\n"
        f"define float @f{n}() {{\n %x = call float @helper()\n ret float %x\n}}\n"
        for n in range(3)
    }
    f = compile_functions(texts)
    kind = ctypes.CFUNCTYPE(ctypes.c_float)
    assert [kind(f[f"f{n}"])() for n in range(3)] == [0.0, 1.0, 2.0]


def test_a_full_table_drops_what_was_not_used_for_longest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jit, "_FUNCTIONS", 4)
    held = compile_functions(dict([numbered(0)]))
    libraries = []
    for n in range(1, 12):
        found = compile_functions(dict([numbered(n)]))
        libraries.append(weakref.ref(found[f"k{n}"].library))  # type: ignore[attr-defined]
        del found
    gc.collect()
    assert [e.name for e in jit.table()] == ["k8", "k9", "k10", "k11"]
    assert [r() is not None for r in libraries] == [False] * 7 + [True] * 4
    assert added(held["k0"]) == 0.0  # dropped, but somebody holds its address
    assert stats().bytes == sum(e.size for e in jit.table())


def test_linkers_go_with_their_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "_LIBRARIES", 3)
    held = [compile_functions(dict([numbered(n)])) for n in range(10)]
    assert [added(f[f"k{n}"]) for n, f in enumerate(held)] == list(range(10))


# -- threads ---------------------------------------------------------------------------


def test_code_compiled_without_llvmlites_lock_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiler, "cores", lambda: 4)
    texts = {bytes([n]): numbered(n)[1] for n in range(32)}
    assert compiler._unlocked() is not None
    side_by_side = [compiler.compile_texts(texts, host()) for _ in range(4)]
    monkeypatch.setattr(compiler, "_unlocked", lambda: None)
    plain = compiler.compile_texts(texts, host())
    assert all(found == plain for found in side_by_side)


def test_another_llvmlite_is_not_called_without_its_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(compiler._ARGUMENTS, "ParseAssembly", 7)
    assert compiler._unlocked.__wrapped__() is None
    monkeypatch.setitem(compiler._ARGUMENTS, "NoSuchFunction", 1)
    assert compiler._unlocked.__wrapped__() is None


def test_several_threads_may_compile() -> None:
    found: list[list[float]] = []

    def work() -> None:
        own = []
        for n in range(12):
            own.append(added(compile_functions(dict([numbered(n)]))[f"k{n}"]))
        found.append(own)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [list(range(12))] * 4 and stats().compiled == 12


# -- the host --------------------------------------------------------------------------


def test_features_are_those_of_the_machine() -> None:
    known = llvm.get_host_cpu_features()
    assert all(host().has(f) == on for f, on in known.items())


def test_cores_are_bounded_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    own = cores()
    assert own >= 1
    for value, expected in [
        ("1", 1),
        ("1,4", 1),
        ("9999", own),
        ("0", own),
        ("x", own),
    ]:
        monkeypatch.setenv("OMP_NUM_THREADS", value)
        assert cores() == expected


def test_quotas_of_control_groups(tmp_path: Path) -> None:
    groups, mount = tmp_path / "cgroup", tmp_path / "fs"
    (mount / "a" / "b").mkdir(parents=True)
    (mount / "cpu,cpuacct" / "c").mkdir(parents=True)
    groups.write_text("0::/a/b\n")
    assert list(_quotas(groups, mount)) == []
    (mount / "a" / "cpu.max").write_text("150000 100000\n")
    (mount / "a" / "b" / "cpu.max").write_text("max 100000\n")
    (mount / "cpu.max").write_text("800000 100000\n")
    assert list(_quotas(groups, mount)) == [1.5, 8.0]
    place = mount / "cpu,cpuacct" / "c"
    (place / "cpu.cfs_quota_us").write_text("50000\n")
    (place / "cpu.cfs_period_us").write_text("100000\n")
    (place.parent / "cpu.cfs_quota_us").write_text("-1\n")
    (place.parent / "cpu.cfs_period_us").write_text("100000\n")
    groups.write_text("4:memory:/x\n3:cpu,cpuacct:/c\n")
    assert list(_quotas(groups, mount)) == [0.5]
    groups.write_text("0::/../outside\ngarbage\n")
    assert set(_quotas(groups, mount)) == {8.0}
    assert list(_quotas(tmp_path / "missing", mount)) == []


def test_attributes_reach_every_function() -> None:
    text = (
        "define internal i32 @a(\n    i32 %x) {\n ret i32 %x\n}\n"
        "define void @b() noinline {\n ret void\n}\n"
        "define void @c() {\n ret void\n}\n"
    )
    own = compiler.prepare(text, host())
    assert len(re.findall(rf"#{compiler._GROUP} {{", own)) == 3
    assert optimized(text).count("nounwind") >= 1


def test_code_is_recorded_and_carried(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {name: three(name, F32, "fma") for name in ("one", "two")}
    kept = compile_functions({"one": texts["one"]})
    monkeypatch.setattr(jit, "_carried", {})
    with jit.recording() as found:
        both = compile_functions(texts)  # also of what is in memory already
    wanted = {jit._key(name, text, host()) for name, text in texts.items()}
    assert wanted <= found.keys() and jit._noted.get() is None
    jit.clear()
    before = stats().compiled
    jit.carry(found)
    again = compile_functions(texts)
    assert stats().compiled == before
    x, y, z = (np.arange(WIDTH, dtype="f4") + k for k in range(3))
    for function in (kept["one"], *both.values(), *again.values()):
        r = np.zeros(WIDTH, "f4")
        call(function, x, y, z, r)
        assert (r == x * y + z).all()
    monkeypatch.setattr(jit, "_CARRIED", 1)
    jit.carry({b"k": b"more than one byte"})
    assert jit._carried == {}, "no more is kept than the table may hold"


def test_functions_are_bounded_by_the_memory_they_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jit.clear()
    monkeypatch.setattr(jit, "_BYTES", 1 << 20)
    before = resident()
    for n in range(100, 200):
        compile_functions(dict([numbered(n)]))
        assert stats().bytes <= 1 << 20
    few = len(jit.table())
    assert 10 < few < 40  # a function of some bytes takes two pages and a library
    assert sum(e.size for e in jit.table()) == stats().bytes
    jit.clear()
    assert stats().bytes == 0 == len(jit.table())
    assert resident() - before < 16 << 20


def resident() -> int:
    """The bytes of this process that are in memory."""
    if sys.platform != "linux":
        return 0
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


MACHINES = [Machine(16, 16, False), Machine(32, 16, True), Machine(64, 32, True)]


def tile_heights(machine: Machine, rows: int, blocks: int = 1) -> set[int]:
    """The heights of the parts that tall tiles of so many rows need."""
    parts = TileParts(machine, "float", ("float",) * 2, "float", ("tall",))
    tile_m, tile_n = tile_size(machine, 4, "tall")
    numbers = {"m": rows, "n": tile_n, "blocks_m": blocks, "block_n": tile_n}
    numbers |= {"tile_m": tile_m, "tile_n": tile_n}
    following = [numbers.get(name, 0) for name in (*FUNCTIONS, *FIELDS)]
    return {index // WIDEST for index in parts.needed(0, following)}


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_a_product_needs_the_tiles_that_its_rows_are_cut_into(machine: Machine) -> None:
    most = tile_size(machine, 4, "tall")[0]
    for rows, blocks in itertools.product(range(1, 60), range(1, 4)):
        cut = {len(x) for x in np.array_split(range(rows), blocks)} - {0}
        tiles = [np.array_split(range(x), -(-x // most)) for x in cut]
        every = {len(tile) for several in tiles for tile in several}
        assert every <= tile_heights(machine, rows, blocks)


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_tiles_of_fewer_rows_need_no_other_parts(machine: Machine) -> None:
    most, flat = (tile_size(machine, 4, kind)[0] for kind in ("tall", "flat"))
    for rows in range(flat + 1, 60):
        assert tile_heights(machine, rows) <= tile_heights(machine, 60)
    # Tiles of so few rows are flat, or two of such would be one.
    lowest = min(flat + 1, (most + 1) // 2)
    assert min(tile_heights(machine, 60)) == lowest > 1


def test_parts_are_in_their_table_once_they_are_compiled() -> None:
    facts = Machine(16, 16, False), "float", "float"
    there = parts_there(table_name("tile", *facts))
    one, two = (tile_part(*facts, height, 1) for height in (2, 3))
    held = compile_functions({one.name: one.text})
    assert there[2 * WIDEST + 1] == held[one.name]
    jit.clear()  # its code may run: it stays where it is
    both = compile_functions({f.name: f.text for f in (one, two)})
    assert both[one.name] == held[one.name]
    assert there[2 * WIDEST + 1] == held[one.name]
    assert there[3 * WIDEST + 1] == both[two.name]


@pytest.mark.skipif(not INTEL, reason="TREADLE_CPU names levels of x86-64")
def test_a_part_is_in_the_table_of_the_machine_it_is_compiled_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    facts = Machine(16, 16, False), "double", "double"
    table, part = table_name("tile", *facts), tile_part(*facts, 2, 1)
    for level in ("generic", "x86-64-v2"):
        monkeypatch.setenv("TREADLE_CPU", level)
        there = parts_there(table)
        held = compile_functions({part.name: part.text})
        assert there[2 * WIDEST + 1] == held[part.name]
    monkeypatch.setenv("TREADLE_CPU", "generic")
    assert parts_there(table)[2 * WIDEST + 1] != there[2 * WIDEST + 1]
