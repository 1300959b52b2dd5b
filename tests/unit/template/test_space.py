"""Knobs and spaces: what each policy gives, how configurations are numbered and applied."""

import math
from typing import Any

import numpy as np
import pytest

from tilewright import autotvm, te
from tilewright.autotvm.task.space import (
    AnnotateSpace,
    ConfigEntity,
    ConfigSpace,
    FallbackConfigEntity,
    OtherOptionEntity,
    OtherOptionSpace,
    ReorderSpace,
    SplitSpace,
)
from tilewright.base.errors import TilewrightError


def sizes(**kwargs: Any) -> list[list[int]]:
    return [e.size for e in SplitSpace(**kwargs).entities]


def test_factors_are_all_ways_to_divide_evenly() -> None:
    assert sizes(axis=12) == [[-1, d] for d in (1, 2, 3, 4, 6, 12)]
    three = sizes(axis=12, num_outputs=3)
    assert len(three) == len(set(map(tuple, three))) == 18
    assert all(12 % (b * c) == 0 for _, b, c in three)


def test_powers_of_two_may_leave_a_tail() -> None:
    assert sizes(axis=12, policy="power2") == [[-1, d] for d in (1, 2, 4, 8)]
    assert sizes(axis=12, policy="power2", no_tail=True) == [[-1, 1], [-1, 2], [-1, 4]]


def test_verbose_is_both() -> None:
    assert [s[1] for s in sizes(axis=12, policy="verbose")] == [1, 2, 3, 4, 6, 8, 12]


def test_limits_filters_and_candidates() -> None:
    assert sizes(axis=12, max_factor=3) == [[-1, 1], [-1, 2], [-1, 3]]
    assert sizes(axis=12, filter=lambda e: e.size[-1] > 4) == [[-1, 6], [-1, 12]]
    assert sizes(axis=7, policy="candidate", candidate=[[-1, 3], [-1, 5]]) == [[-1, 3], [-1, 5]]
    assert sizes(axis=7, num_outputs=1) == [[-1]]


def test_axes_may_be_iter_vars() -> None:
    k = te.reduce_axis((0, 6), "k")
    assert len(SplitSpace(k)) == 4
    assert ConfigSpace.axis(k).length == 6


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: SplitSpace(12, policy="half"), "no policy 'half'"),
        (lambda: SplitSpace(12, filter=lambda e: False), "no choice at all"),
        (lambda: SplitSpace(12, policy="candidate", candidate=[[2]]), "has 1 lengths"),
        (lambda: SplitSpace(12, num_outputs=0), "num_outputs"),
        (lambda: SplitSpace(0), "at least 1, got 0"),
        (lambda: SplitSpace("12"), "constant length"),
        (lambda: SplitSpace(te.var("n")), "constant length"),
        (lambda: SplitSpace(te.reduce_axis((0, te.var("n")))), "constant length"),
        (lambda: ReorderSpace([1, 2], "shuffle"), "no policy 'shuffle'"),
        (lambda: ReorderSpace([1, 2], "interval_all"), "needs interval="),
        (lambda: ReorderSpace([1, 2], "candidate", candidate=[[1]]), "each of the axes once"),
        (lambda: ReorderSpace([1, 2], "candidate", candidate=[[1, 3]]), "not one of the axes"),
        (lambda: AnnotateSpace([1], "paint"), "no policy 'paint'"),
        (lambda: AnnotateSpace([1, 2], "vec"), "one axis"),
        (lambda: AnnotateSpace([1], "bind_gpu"), "at least 2 axes"),
        (lambda: AnnotateSpace([1], "locate_cache"), "num_anchor"),
        (lambda: AnnotateSpace([1], "candidate", candidate=[["vec", "vec"]]), "not for 1 axes"),
        (lambda: OtherOptionSpace([], "", candidate=[]), "no choice"),
        (lambda: OtherOptionSpace([], "", candidate=[max]), "choose by name"),
    ],
)
def test_impossible_knobs_are_refused(make: Any, words: str) -> None:
    with pytest.raises(TilewrightError, match=words):
        make()


def test_orders() -> None:
    axes = [object() for _ in range(4)]
    assert [e.perm for e in ReorderSpace(axes, "identity").entities] == [[0, 1, 2, 3]]
    assert len(ReorderSpace(axes, "all")) == 24
    inner = [e.perm for e in ReorderSpace(axes, "interval_all", interval=(1, 3)).entities]
    assert inner == [[0, 1, 2, 3], [0, 2, 1, 3]]
    chosen = ReorderSpace(axes, "candidate", candidate=[axes[::-1]])
    assert chosen[0].perm == [3, 2, 1, 0]


def test_the_innermost_length_varies_slowest_and_counts_are_those_of_tvm() -> None:
    assert sizes(axis=4, num_outputs=3) == [
        [-1, 1, 1], [-1, 2, 1], [-1, 4, 1], [-1, 1, 2], [-1, 2, 2], [-1, 1, 4],
    ]  # fmt: skip
    counts = {(256, p): 45 for p in ("factors", "power2", "verbose")}
    counts.update({(224, "factors"): 63, (224, "power2"): 36, (224, "verbose"): 84})
    for (length, policy), count in counts.items():
        assert len(sizes(axis=length, policy=policy, num_outputs=3)) == count


def test_interleaved_orders_merge_the_longest_chains_first() -> None:
    y, x, k = (["yo", "yi"], ["xo", "xi"], ["ko", "ki"])
    axes = [*y, *x, *k]

    def orders(policy: str) -> list[list[str]]:
        space = ReorderSpace(axes, policy, spatial=[y, x], reduce=[k])
        return [[axes[i] for i in e.perm] for e in space.entities]

    assert orders("interleave") == [["yo", "xo", "ko", "yi", "xi", "ki"]]
    assert orders("interleave_cuda") == [["yo", "xo", "ko", "ki", "yi", "xi"]]


def test_annotations() -> None:
    def anns(count: int, policy: str, **kwargs: Any) -> list[list[Any]]:
        return [e.anns for e in AnnotateSpace(list(range(count)), policy, **kwargs).entities]

    assert anns(2, "unroll") == [["unroll", "unroll"]]
    assert anns(1, "try_vec") == [["none"], ["vec"]]
    both = anns(2, "try_unroll_vec")
    assert len(both) == 8 and ("vec", "vec") not in map(tuple, both)
    assert anns(2, "bind_gpu") == [["blockIdx.x", "threadIdx.x"]]
    assert anns(4, "bind_gpu") == [["blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x"]]
    assert anns(3, "bind_gpu_virtual") == [["blockIdx.x", "vthread", "threadIdx.x"]]
    assert anns(5, "bind_gpu") == [
        ["fuse", "blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x"]
    ]
    assert len(anns(9, "bind_gpu_virtual")[0]) == 9
    assert anns(3, "locate_cache", num_anchor=2) == [[0, 1], [0, 2], [1, 2]]


def two_stage() -> Any:
    A = te.placeholder((32, 32), name="A")
    B = te.compute((32, 32), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((32, 32), lambda i, j: B[i, j] + 1.0, name="C")
    return te.create_schedule(C.op), B, C


def test_entities_apply_to_schedules() -> None:
    s, B, C = two_stage()
    y, x = s[C].op.axis
    yo, ym, yi = SplitSpace(y, policy="candidate", num_outputs=3, candidate=[[-1, 4, 2]])[0].apply(
        s, C, y
    )
    xo, xi = SplitSpace(x, policy="candidate", candidate=[[-1, 8]])[0].apply(s, C, x)
    axes = [yo, ym, yi, xo, xi]
    order = ReorderSpace(axes, "candidate", candidate=[[yo, xo, ym, yi, xi]])[0].apply(s, C, axes)
    assert [a.var.name for a in order] == [a.var.name for a in s[C].leaf_iter_vars]
    AnnotateSpace([yi, xi], "candidate", candidate=[["unroll", "vec"]])[0].apply(s, C, [yi, xi])
    AnnotateSpace([yo, xo], "locate_cache", num_anchor=1)[1].apply(s, C, [yo, xo], source=[[B]])
    text = s.as_python()
    assert "split(s[C].op.axis[0], factor=8)" in text and "factor=2)" in text
    assert ".vectorize(" in text and ".unroll(" in text and ".compute_at(s[C]" in text


def test_left_over_axes_are_fused_into_the_bound_ones() -> None:
    s, _, C = two_stage()
    y, x = s[C].op.axis
    yo, yi = s[C].split(y, factor=4)
    AnnotateSpace([0, 1, 2], "bind_gpu")[0].apply(s, C, [yo, yi, x])
    text = s.as_python()
    assert "fuse(" in text and len(s[C].leaf_iter_vars) == 2 and "threadIdx_x" in text


def test_threads_are_bound() -> None:
    s, _, C = two_stage()
    AnnotateSpace([0, 1], "bind_gpu")[0].apply(s, C, list(s[C].op.axis))
    assert "s[C].bind(s[C].op.axis[1], threadIdx_x)" in s.as_python()


def test_annotations_out_of_limits_make_the_configuration_an_error() -> None:
    s, _, C = two_stage()
    cfg = ConfigEntity(0, None, {})
    entity = AnnotateSpace([0, 1], "candidate", candidate=[["unroll", "vec"]])[0]
    entity.apply(s, C, s[C].op.axis, axis_lens=[32, 32], max_unroll=16, vec_size=[4], cfg=cfg)
    assert not cfg.valid() and len(cfg.errors) == 2 and "32 steps" in cfg.errors[0]
    with pytest.raises(TilewrightError, match="32 lanes"):
        two, _, D = two_stage()
        entity.apply(two, D, two[D].op.axis, axis_lens=[8, 32], vec_size=[4])


def space_of_three() -> ConfigSpace:
    cfg = ConfigSpace()
    cfg.define_split("tile", cfg.axis(8))
    cfg.define_knob("flag", [False, True])
    cfg.define_annotate("ann", [cfg.axis(3)], policy="try_unroll")
    return cfg


def test_configurations_are_numbered_in_mixed_radix() -> None:
    cfg = space_of_three()
    assert cfg.dims == [4, 2, 2] and len(cfg) == cfg.range_length == 16
    assert cfg.get(0)["tile"].size == [-1, 1] and cfg.get(3)["tile"].size == [-1, 8]
    assert cfg.get(4)["flag"].val is True and cfg.get(4)["tile"].size == [-1, 1]
    assert cfg.get(15)["ann"].anns == ["unroll"]
    for i in range(16):
        assert cfg.knob2point(cfg.point2knob(i)) == i
        assert cfg.index_of(cfg.get(i)) == i
        again = ConfigEntity.from_json_dict(cfg.get(i).to_json_dict())
        assert again.to_json_dict() == cfg.get(i).to_json_dict()
    with pytest.raises(TilewrightError, match="no configuration 16"):
        cfg.get(16)


def test_a_space_with_more_than_63_bits_counts_right() -> None:
    cfg = ConfigSpace()
    for i in range(22):
        cfg.define_knob(f"k{i}", list(range(8)))
    assert cfg.range_length == 8**22
    last = cfg.get(8**22 - 1)
    assert last["k21"].val == 7 and cfg.index_of(last) == 8**22 - 1
    picked = cfg.sample_ints(50, np.random.default_rng(0))
    assert len(set(picked)) == 50 and max(picked) > 1 << 62


def test_defining_twice_keeps_the_first() -> None:
    cfg = space_of_three()
    cfg.define_split("tile", cfg.axis(64))
    assert cfg.dims == [4, 2, 2]


def test_filters_over_several_knobs() -> None:
    cfg = ConfigSpace()
    cfg.define_split("x", cfg.axis(16))
    cfg.define_split("y", cfg.axis(16))
    cfg.multi_filter(lambda e: e["x"].size[-1] * e["y"].size[-1] == 16)
    kept = list(cfg.indices())
    assert cfg.range_length == 25 and len(cfg) == cfg.filter_length == 5 == len(kept)
    assert list(cfg) == ["x", "y"]
    assert all(math.prod(cfg.get(i)[n].size[-1] for n in "xy") == 16 for i in kept)
    assert set(cfg.sample_ints(9, np.random.default_rng(0))) == set(kept)
    with pytest.raises(IndexError, match="does not correspond to the multi_filter"):
        cfg.get(0)
    with pytest.raises(IndexError, match="there is no configuration 25"):
        cfg.get(25)
    assert cfg.get_next_index(kept[0]) == kept[1] and cfg.get_next_index(kept[4]) is None
    assert cfg.get_next_index(kept[4], n=-2) == kept[2]
    assert cfg.get_next_index(kept[0], end=kept[1]) is None
    assert cfg.subrange_length(kept[1], kept[3]) == 2
    assert cfg.get_rand_index(to_exclude=kept[1:]) == kept[0]
    assert kept[1] <= cfg.get_rand_index(kept[1], kept[2] + 1) <= kept[2]
    with pytest.raises(IndexError, match="no configuration is left"):
        cfg.get_rand_index(to_exclude=kept)
    assert not cfg.is_index_valid(0) and not cfg.is_index_valid(-1)


def test_a_random_walk_changes_one_knob() -> None:
    cfg = ConfigSpace()
    cfg.define_split("x", cfg.axis(64))
    cfg.define_knob("flag", [0, 1, 2])
    cfg.define_knob("fixed", ["a"])
    for point in range(0, cfg.range_length, 3):
        here, there = cfg.point2knob(point), cfg.point2knob(cfg.random_walk(point))
        assert sum(a != b for a, b in zip(here, there)) == 1
    cfg.multi_filter(lambda e: e.index == 0)
    with pytest.raises(IndexError, match="differs in one knob"):
        cfg.random_walk(0)


def test_choices_as_numbers() -> None:
    cfg = ConfigSpace()
    y, x = cfg.axis(8), cfg.axis(4)
    cfg.define_split("tile", y)
    cfg.define_reorder("order", [y, x], "all")
    cfg.define_annotate("ann", [x], "try_vec")
    cfg.define_knob("flag", [3])
    found = cfg.get(cfg.range_length - 1).get_flatten_feature()
    assert found.dtype == np.float32
    assert found.tolist() == [-1, 8, 1, 0, 0, 1, *[0] * 9, 3]


def test_filters_are_asked_anew() -> None:
    allowed = {0, 1}
    cfg = ConfigSpace()
    cfg.define_knob("flag", [0, 1, 2])
    cfg.multi_filter(lambda e: e.index in allowed)
    assert len(cfg) == 2
    allowed.add(2)
    cfg.clear_cache()
    assert len(cfg) == 3


def test_a_missing_knob_is_named() -> None:
    with pytest.raises(TilewrightError, match="no knob 'til'; it has: tile, flag, ann"):
        space_of_three()["til"]


def test_a_configuration_defines_nothing() -> None:
    cfg = space_of_three().get(5)
    yo, yi = cfg.define_split("tile", cfg.axis(8))
    assert yo.index == 0 and yi.index == 1
    assert cfg.define_knob("flag", [False, True]) is None  # type: ignore[func-returns-value]
    assert len(cfg.define_annotate("ann", [1, 2], policy="unroll")) == 2
    assert cfg.get_other_option() == {cfg["flag"]: True}
    cfg["flag"] = 3
    assert cfg["flag"].val == 3


@pytest.mark.parametrize(
    "entity",
    [
        [["tile", "sp", [-1, "four"]]],
        [["tile", "sp", 4]],
        [["tile", "xx", [1]]],
        [["tile", "sp"]],
        "tile",
        None,
        7,
    ],
)
def test_data_that_is_no_configuration_is_refused(entity: Any) -> None:
    with pytest.raises(TilewrightError, match="no configuration of a template"):
        ConfigEntity.from_json_dict({"index": 0, "code_hash": None, "entity": entity})


def test_fallbacks() -> None:
    cfg = FallbackConfigEntity()
    assert cfg.is_fallback
    cfg.define_split("x", cfg.axis(48), num_outputs=3)
    cfg.define_knob("flag", ["a", "b"])
    assert cfg["x"].size == [-1, 1, 1] and cfg["flag"].val == "a"
    cfg.fallback_split("x", [-1, 8, 5])
    assert cfg["x"].size == [2, 6, 4]
    with pytest.raises(RuntimeError, match="Cannot find feasible fallback split entity"):
        cfg.fallback_split("x", [-1, 1, 0])
    with pytest.raises(TilewrightError, match="no split into 2 loops"):
        cfg.fallback_split("x", [-1, 8])


def test_fallback_from_records_of_another_shape() -> None:
    other = ConfigSpace()
    other.define_split("x", other.axis(64), num_outputs=3)
    other.define_knob("flag", ["a", "b"])
    best = next(c for c in map(other.get, other.indices()) if c["x"].size == [-1, 4, 8])
    best["flag"] = "b"
    record = (autotvm.MeasureInput(None, None, best), None)  # type: ignore[arg-type]
    cfg = FallbackConfigEntity()
    cfg.define_split("x", cfg.axis(36), num_outputs=3)
    cfg.define_knob("flag", ["a", "b"])
    cfg.fallback_with_reference_log([record])
    assert cfg["x"].size == [2, 3, 6] and cfg["flag"].val == "b"


def test_a_configuration_keeps_its_constraints() -> None:
    cfg = ConfigEntity(7, None, {"w": OtherOptionEntity(2)}, ["of its own"])
    assert (cfg.index, cfg["w"].val, cfg.constraints) == (7, 2, ["of its own"])
    assert cfg.valid()
