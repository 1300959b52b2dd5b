from __future__ import annotations

import json
import random
import subprocess
import sys
from typing import Any

import pytest

from tests.golden.listings import LISTINGS
from tests.golden.test_printer import EXPRESSIONS, kitchen_sink
from tilewright.base.errors import TilewrightError
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.attrs import DictAttrs, make_node
from tilewright.loopir.buffer import Buffer, BufferRegion
from tilewright.loopir.equal import structural_equal
from tilewright.loopir.iter import CommReducer, IterVar, ProducerLoad, Range, Reduce
from tilewright.loopir.serial import FIELDS, load_json, save_json
from tilewright.loopir.visit import CHILDREN


def again(node: Any, **hooks: Any) -> Any:
    return load_json(save_json(node))


@pytest.mark.parametrize("make", [*LISTINGS.values(), kitchen_sink])
def test_programs_come_back(make: Any) -> None:
    program = make()
    copy = again(program)
    assert str(copy) == str(program)
    assert structural_equal(copy, program, map_free_vars=True)
    assert save_json(copy) == save_json(program)


@pytest.mark.parametrize("e", [e for e, _ in EXPRESSIONS], ids=[t for _, t in EXPRESSIONS])
def test_expressions_come_back(e: Any) -> None:
    copy = again(e)
    assert type(copy) is type(e) and str(copy) == str(e)


def test_the_schema_names_every_node_and_field() -> None:
    assert set(CHILDREN) <= set(FIELDS)
    for kind, fields in FIELDS.items():
        slots = {name for base in kind.__mro__ for name in vars(base).get("__slots__", ())}
        names = {name for name, _ in fields}
        assert {name for name in slots if not name.startswith("_")} <= names <= slots


def test_every_node_is_known_whatever_is_imported() -> None:
    code = (
        "import importlib, pkgutil\n"
        "from tilewright import loopir\n"
        "from tilewright.loopir import serial\n"
        "known = set(serial.FIELDS)\n"
        "for module in pkgutil.iter_modules(loopir.__path__):\n"
        "    importlib.import_module(f'{loopir.__name__}.{module.name}')\n"
        "assert set(serial._kinds()) == known, set(serial._kinds()) - known\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_sharing_and_identity_survive() -> None:
    i = E.Var("i")
    shared = i * 3
    a = Buffer((8,), name="A")
    both = again([shared + shared, a[i], a, i])
    total, load, buffer, var = both
    assert total.a is total.b and total.a.a is var
    assert load.buffer is buffer and load.indices[0] is var
    assert isinstance(both, list)
    tower: Any = i
    for _ in range(200):
        tower = E.Mul(tower, tower)
    assert len(save_json(tower)) < 20_000


def test_values_of_attributes() -> None:
    i = E.Var("i")
    attrs = {"a": 1, "b": [1.5, "x", None, (True, i)], "c": {"d": {1: 2}}, "e": float("inf")}
    f = again(S.PrimFunc([i], S.no_op(), attrs=attrs))
    assert f.attrs["b"][:3] == [1.5, "x", None] and f.attrs["b"][3] == (True, f.params[0])
    assert f.attrs["c"] == {"d": {1: 2}} and f.attrs["e"] == float("inf")
    nan = again(E.const(float("nan")))
    assert nan.value != nan.value
    assert again(E.const(-0.0)).value.hex() == "-0x0.0p+0"
    region = again(BufferRegion(Buffer((8,)), [Range(0, 4)]))
    assert region.region[0].extent.value == 4


def test_tensors_go_through_a_hook() -> None:
    class Tensor:
        name, dtype = "T", "float32"

    tensor = Tensor()
    x, y = E.Var("x", "float32"), E.Var("y", "float32")
    axis = IterVar((0, 4), "k", IterVar.CommReduce)
    add = CommReducer([x], [y], [x + y], [E.const(0.0)])
    reduce = Reduce(add, [ProducerLoad(tensor, [axis])], [axis], E.const(True))
    with pytest.raises(TilewrightError, match=r"cannot save .*Tensor.* as JSON"):
        save_json(reduce)

    def save(obj: Any, encode: Any) -> Any:
        return ["tensor", encode(axis)] if obj is tensor else None

    def load(data: Any, decode: Any) -> Any:
        assert data[0] == "tensor" and isinstance(decode(data[1]), IterVar)
        return tensor

    copy = load_json(save_json(reduce, save), load)
    assert copy.source[0].producer is tensor and str(copy) == str(reduce)
    assert copy.source[0].indices[0] is copy.axis[0].var
    with pytest.raises(TilewrightError, match="unknown mark 'x'"):
        load_json(save_json(reduce, save))


def test_deep_chains() -> None:
    x, y = E.Var("x"), E.Var("y")
    e: E.PrimExpr = x
    for _ in range(50_000):
        e = E.Sub(y, e)
    assert structural_equal(again(e), e, map_free_vars=True)


def test_damaged_text_is_an_error() -> None:
    text = save_json(LISTINGS["split"]())
    for wrong, why in (
        (text[: len(text) // 2], "saved as JSON"),
        ("", "saved as JSON"),
        ("[]", "unexpected"),
        ('"x"', "unexpected"),
        (text.replace("tilewright ir", "something else"), "something else"),
        (text.replace('"version":1', '"version":99'), "version 99"),
        (text.replace('"Var"', '"Vra"'), "unknown 'Vra'"),
        (text.replace('"int32"', '"int33"'), "int33"),
        ("[" * 100_000, "saved as JSON"),
    ):
        with pytest.raises(TilewrightError, match=why):
            load_json(wrong)


def test_random_damage_never_escapes() -> None:
    data = json.loads(save_json(kitchen_sink()))
    rng = random.Random(0)
    values: list[Any] = [None, -1, 0, 5, 10**9, 1.5, "x", "int32", True, [], [0], {}, {"#": 0}]
    for _ in range(3000):
        copy = json.loads(json.dumps(data))
        entry = rng.choice(copy["nodes"])
        entry[rng.randrange(len(entry))] = rng.choice(values)
        if rng.random() < 0.1:
            entry.pop()
        try:
            loaded = load_json(json.dumps(copy))
        except TilewrightError:
            continue
        assert isinstance(loaded, S.PrimFunc)


def test_attributes_by_name_come_back_from_a_file() -> None:
    made = make_node("DictAttrs", x=1, y=[10, 20], name="xyz")
    again = load_json(save_json(made))
    assert isinstance(again, DictAttrs) and again.items() == made.items()
    assert structural_equal(again, make_node("DictAttrs", name="xyz", y=[10, 20], x=1))
    assert not structural_equal(again, make_node("DictAttrs", name="xyz", y=[10, 20], x=2))


def test_lanes_and_indices_are_constants_as_tvm_has_them():
    """Of nodes that were made, rewritten and read from a file."""
    x = E.Var("x", "int32")
    ramp = E.Ramp(x, E.const(2), E.const(8))
    made = (ramp, E.Broadcast(x, 4), E.Shuffle([ramp], [E.const(3), 1]))
    for a, b, c in (made, tuple(map(again, made))):
        assert (a.lanes.value, a.lanes, int(a.lanes), a.lanes.dtype) == (8, 8, 8, "int32")
        assert b.lanes.value == 4 and [i.value for i in c.indices] == [3, 1]
        assert (a.dtype, b.dtype, c.dtype) == ("int32x8", "int32x4", "int32x2")
