"""Host operators of strings and of random numbers, casts, steps of optimizers."""

from __future__ import annotations

import re
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.graph.host import check_like_reference, check_same, host, reference
from tilewright.base.errors import TilewrightError


def strings(*texts: Any) -> Any:
    return np.array(texts, object)


WORDS = strings("a", "", "ÿ日本", " b  c ")


def test_joining() -> None:
    check_like_reference("StringConcat", WORDS[:, None], WORDS)
    check_like_reference("StringConcat", WORDS[:0], WORDS[:1])
    (scalar,) = host("StringConcat", np.array("ß", object), np.array("", object))
    assert scalar.shape == () and scalar.item() == "ß"


@pytest.mark.parametrize("x", [WORDS, WORDS[:0], strings("", ""), strings("a,b", ",,"),
                               WORDS.reshape(2, 1, 2)])  # fmt: skip
@pytest.mark.parametrize("attrs", [{}, {"delimiter": ","}, {"delimiter": "  "}, {"delimiter": ""},
                                   {"delimiter": ",", "maxsplit": 1}])  # fmt: skip
def test_splitting(x: Any, attrs: Any) -> None:
    check_like_reference("StringSplit", x, outputs=2, **attrs)


def test_splitting_drops_blanks_at_the_ends() -> None:
    found, counts = host("StringSplit", np.array(" b  c  d ", object), outputs=2, maxsplit=1)
    assert found.tolist() == ["b", "c  d"] and counts.shape == () and counts == 2
    found, counts = host("StringSplit", WORDS, outputs=2, maxsplit=0)
    assert found.tolist() == [["a"], [""], ["ÿ日本"], ["b  c"]] and counts.tolist() == [1, 0, 1, 1]


@pytest.mark.parametrize("shape", [(-1,), (1, -1)])
def test_normalising(shape: Any) -> None:
    x = strings("Monday", "été", "ÉTÉ", "ß").reshape(shape)
    for attrs, wanted in (
        ({}, ["Monday", "été", "ÉTÉ", "ß"]),
        ({"case_change_action": "UPPER"}, ["MONDAY", "ÉTÉ", "ÉTÉ", "SS"]),
        ({"case_change_action": "LOWER", "stopwords": ["Été"]}, ["monday", "ß"]),
        ({"is_case_sensitive": 1, "stopwords": ["été", "monday"]}, ["Monday", "ÉTÉ", "ß"]),
        ({"stopwords": ["MONDAY", "été", "ß"]}, [""]),
    ):
        check_same(host("StringNormalizer", x, **attrs)[0], strings(*wanted).reshape(shape))


GRAMS = {
    "ngram_counts": [0, 3, 7], "ngram_indexes": [6, 0, 1, 2, 5, 3], "max_gram_length": 3,
    "weights": [0.5, 2.0, 3.0, 5.0, 7.0, 11.0],
}  # fmt: skip
POOL = [1, 2, 3, 1, 2, 2, 2, 3, 2, 1]


def counted(row: list[int], least: int, skips: int, mode: str) -> list[float]:
    """Y of one row, as the standard defines it, one window after the other."""
    grams = [(1,), (2,), (3,), (1, 2), (2, 2), (3, 2, 1)]
    counts = [0.0] * 7
    for gram, place, weight in zip(grams, GRAMS["ngram_indexes"], GRAMS["weights"]):  # type: ignore[call-overload]
        found = 0
        for step in range(1, 2 + (skips if len(gram) > 1 else 0)):
            for start in range(len(row) - (len(gram) - 1) * step):
                found += tuple(row[start + k * step] for k in range(len(gram))) == gram
        if len(gram) >= least:
            counts[place] = {"TF": found, "IDF": min(found, 1) * weight, "TFIDF": found * weight}[
                mode
            ]
    return counts


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("skips", [0, 1, 5])
@pytest.mark.parametrize("least", [1, 2, 3])
def test_counting_ngrams(least: int, skips: int, mode: str) -> None:
    names = ["", "ä", "b", "c", "other"]
    x = np.random.default_rng(5).integers(0, 5, (7, 9))
    x[0, :3] = 3, 2, 1
    attrs: dict[str, Any] = dict(GRAMS, min_gram_length=least, max_skip_count=skips, mode=mode)
    wanted = np.array([counted(row, least, skips, mode) for row in x.tolist()], np.float32)
    check_same(host("TfIdfVectorizer", x, pool_int64s=POOL, **attrs)[0], wanted)
    check_same(
        host("TfIdfVectorizer", x[0].astype(np.int32), pool_int64s=POOL, **attrs)[0], wanted[0]
    )
    texts = np.array(names, object)[x]
    attrs["pool_strings"] = [names[k] for k in POOL]
    check_same(host("TfIdfVectorizer", texts, **attrs)[0], wanted)
    for empty in (texts[:0], texts[:, :0], texts[0, :0]):
        check_same(host("TfIdfVectorizer", empty, **attrs)[0],
                   np.zeros((*empty.shape[:-1], 7), np.float32))  # fmt: skip


PATTERNS = [
    (r"", ["", "a"], [1, 0]),
    (r"a|bc", ["a", "bc", "abc", "ac"], [1, 1, 0, 0]),
    (r"\w+@\w+\.\w+", ["me@x.org", "mé@x.org", "me@x", "me@x.org\n"], [1, 0, 0, 0]),
    (r"a$", ["a", "a\n"], [1, 0]),
    (r"(?m)a$\nb^?", ["a\nb", "a\n"], [1, 0]),
    (r"(?m)^a\n^b$", ["a\nb"], [1]),
    (r"a.b", ["a\nb", "a日b"], [0, 1]),
    (r"(?s)a.b", ["a\nb"], [1]),
    (r"(?s:a.)b.", ["a\nbc", "a\nb\n"], [1, 0]),
    (r"(?i)straße", ["STRAßE"], [1]),
    (r"x(?i)a|b", ["xA", "B", "XA", "xB"], [1, 1, 0, 0]),
    (r"(x(?i)a)b", ["xAb", "xAB"], [1, 0]),
    (r"(?i:a(?-i)b)", ["Ab", "AB"], [1, 0]),
    (r"[[:alpha:]]+", ["abZ", "é"], [1, 0]),
    (r"[[:^digit:]x]+", ["abé", "a1"], [1, 0]),
    (r"[\D]+", ["ab", "a1"], [1, 0]),
    (r"\pL+", ["日本é", "a1"], [1, 0]),
    (r"\p{Lu}\P{Lu}[^\pL]", ["Éé1", "éé1", "Ééa"], [1, 0, 0]),
    (r"\Qa.b\E+", ["a.b", "a.bb", "acb"], [1, 1, 0]),
    (r"[]a-]+", ["]-a", "b"], [1, 0]),
    (r"[^]a]", ["b", "]"], [1, 0]),
    (r"[a&&b]+", ["a&b", "c"], [1, 0]),
    (r"[a-c\-\]]+", ["b-]", "d"], [1, 0]),
    (r"a{2}b{1,}c{,3}", ["aabbc{,3}", "aabbccc"], [1, 0]),
    (r"(?P<n>a)(?<m>b)", ["ab"], [1]),
    (r"\x41\x{65E5}\101\012", ["A日A\n"], [1]),
    (r"\bab\B.", ["abc", "ab "], [1, 0]),
    (r"\Aa*?b+?\z", ["aab"], [1]),
    (r"(?U)a+b??", ["aab"], [1]),
    (r"\d\s\S", ["1 a", "१ a", "1\va"], [1, 0, 0]),
]


@pytest.mark.parametrize(("pattern", "texts", "wanted"), PATTERNS)
def test_patterns(pattern: str, texts: list[str], wanted: list[int]) -> None:
    (found,) = host("RegexFullMatch", strings(*texts)[None], pattern=pattern)
    assert found.dtype == bool and found.tolist() == [[bool(w) for w in wanted]]


NUMBERS = [
    (np.array([1, 0.5, 1e20, -1e-7, np.nan, np.inf, -np.inf, 0.1], np.float32),
     ["1", "0.5", "100000000000000000000", "-0.0000001", "NaN", "INF", "-INF", "0.1"]),
    (np.array([1 / 3, 1e22]), ["0.3333333333333333", "10000000000000000000000"]),
    (np.array([0.1, 65504], np.float16), ["0.1", "65500"]),
    (np.array([0.5, 3], ml_dtypes.bfloat16), ["0.5", "3"]),
    (np.array([-128, 7], np.int8), ["-128", "7"]),
    (np.array([2**64 - 1], np.uint64), ["18446744073709551615"]),
    (np.array([True, False]), ["1", "0"]),
    (np.array([-3, 7], ml_dtypes.int4), ["-3", "7"]),
]  # fmt: skip


@pytest.mark.parametrize(("numbers", "texts"), NUMBERS)
def test_numbers_as_text_and_back(numbers: Any, texts: list[str]) -> None:
    for shape in (numbers.shape, (1, -1)):
        (found,) = host("Cast", numbers.reshape(shape), to=TensorProto.STRING)
        check_same(found, strings(*texts).reshape(shape))
        (back,) = host("CastLike", found, numbers)
        check_same(back, numbers.reshape(shape))


def test_text_as_numbers() -> None:
    x = strings("+INF", "inf", "-Inf", "nAn", " 2.5 ", "1E-5", "-.5", "7.", "1e999")
    (found,) = host("Cast", x, to=TensorProto.FLOAT)
    wanted = np.array([np.inf, np.inf, -np.inf, np.nan, 2.5, 1e-5, -0.5, 7, np.inf], np.float32)
    check_same(found, wanted)
    (found,) = host("Cast", strings("100.5", "-3", "300", "1e2"), to=TensorProto.INT8)
    assert found.tolist() == [100, -3, 44, 100] and found.dtype == np.int8
    (found,) = host("Cast", strings("-1", str(2**64)), to=TensorProto.UINT64)
    assert found.tolist() == [2**64 - 1, 0]
    assert host("Cast", strings("0", "2.5", "-0"), to=9)[0].tolist() == [False, True, False]
    assert host("Cast", strings("7"), opset=1, to="INT64")[0].dtype == np.int64
    assert host("Cast", WORDS[:0], to=1)[0].shape == (0,)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float8_e5m2fnuz"])
def test_what_is_beyond_eight_bits(name: str) -> None:
    x = np.array([1e30, -np.inf, np.nan, 1.0, 1e-30], np.float64)
    kind, finfo = getattr(ml_dtypes, name), getattr(ml_dtypes, "finfo")  # noqa: B009
    most = float(finfo(kind).max)
    number = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    (found,) = host("Cast", x, to=number)
    np.testing.assert_array_equal(found.astype(float), [most, -most, np.nan, 1, 0])
    (found,) = host("Cast", x, to=number, saturate=0)
    assert not np.isfinite(found.astype(float)[:3]).any()


def test_powers_of_two() -> None:
    x = np.array([1, 1.25, 1.5, 3, np.inf, 0, np.nan, -1, 1e-45], np.float32)
    for mode, wanted in (("up", [1, 2, 2, 4]), ("down", [1, 1, 1, 2]), ("nearest", [1, 1, 2, 4])):
        (found,) = host("Cast", x, to=TensorProto.FLOAT8E8M0, round_mode=mode)
        assert found.astype(np.float32)[:4].tolist() == wanted
        assert found.view(np.uint8)[4:].tolist() == [254, 0, 255, 255, 0]
        (found,) = host("Cast", x, to=TensorProto.FLOAT8E8M0, round_mode=mode, saturate=0)
        assert found.view(np.uint8)[4:].tolist() == [255] * 5


def test_random_numbers_of_a_seed_are_the_same() -> None:
    like = np.zeros((3, 0, 5), np.float16)
    for kind, inputs, attrs in (
        ("RandomNormal", [], {"shape": [40]}),
        ("RandomUniform", [], {"shape": [40], "dtype": TensorProto.DOUBLE}),
        ("RandomNormalLike", [np.zeros(40, np.float32)], {}),
        ("RandomUniformLike", [np.zeros(40, np.int32)], {"dtype": TensorProto.BFLOAT16}),
        ("Bernoulli", [np.full(40, 0.5)], {}),
        ("Multinomial", [np.zeros((4, 9), np.float32)], {"sample_size": 10}),
    ):
        (a,), (b,) = (host(kind, *inputs, seed=-1.5, **attrs) for _ in "ab")
        assert a.tobytes() == b.tobytes()
        (c,), (d,) = (host(kind, *inputs, **attrs) for _ in "cd")
        assert c.tobytes() != d.tobytes() != a.tobytes()
    (found,) = host("RandomNormalLike", like)
    assert (found.shape, found.dtype) == (like.shape, like.dtype)
    assert host("Bernoulli", np.array(1.0))[0] == 1


def test_distributions() -> None:
    (normal,) = host("RandomNormal", shape=[100_000], mean=3.0, scale=0.5, seed=1.0)
    assert normal.dtype == np.float32
    assert abs(normal.mean() - 3) < 0.01 and abs(normal.std() - 0.5) < 0.01
    (flat,) = host("RandomUniform", shape=[100_000], low=-1.0, high=3.0, seed=1.0)
    assert flat.min() >= -1 and flat.max() <= 3
    assert abs(flat.mean() - 1) < 0.02 and abs((flat < 0).mean() - 0.25) < 0.01
    chances = np.array([0, 0.25, 1])[:, None].repeat(50_000, 1)
    (bits,) = host("Bernoulli", chances, dtype=TensorProto.BOOL, seed=1.0)
    assert bits.dtype == bool and abs(bits.mean(1) - chances[:, 0]).max() < 0.01
    logs = np.log(np.array([[1, 2, 0, 1], [0, 0, 5, 0]]) + 1e-300)
    (drawn,) = host("Multinomial", logs, sample_size=50_000, dtype=TensorProto.INT64, seed=1.0)
    assert drawn.dtype == np.int64 and drawn.shape == (2, 50_000)
    shares = np.bincount(drawn[0], minlength=4) / 50_000
    np.testing.assert_allclose(shares, [0.25, 0.5, 0, 0.25], atol=0.01)
    assert (drawn[1] == 2).all()


def test_dropout() -> None:
    x = np.arange(1, 10_001, dtype=np.float32)
    ratio, on = np.float32(0.25), np.array(True)
    y, mask = host("Dropout", x, ratio, on, outputs=2, seed=3)
    again, _ = host("Dropout", x, ratio, on, outputs=2, seed=3)
    check_same(again, y)
    assert mask.dtype == bool and abs(mask.mean() - 0.75) < 0.02
    check_same(y, np.where(mask, x / np.float32(0.75), np.float32(0)))
    for inputs, opset, attrs in (
        ([x], 22, {}), ([x, ratio], 13, {}), ([x, np.float32(0), on], 22, {}),
        ([x], 10, {}), ([x], 6, {"is_test": 1}),
    ):  # fmt: skip
        y, mask = host("Dropout", *inputs, opset=opset, outputs=2, **attrs)
        check_same(y, x)
        check_same(mask, np.ones(x.shape, bool if opset >= 10 else np.float32))
    y, mask = host("Dropout", x, opset=1, outputs=2)
    assert mask.dtype == np.float32 and abs(mask.mean() - 0.5) < 0.05


TRAINING = "ai.onnx.preview.training."


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("updates", [0, 1, 7])
@pytest.mark.parametrize(
    ("kind", "each", "attrs"),
    [
        ("Adagrad", 3, {"norm_coefficient": 0.01, "decay_factor": 0.1, "epsilon": 1e-5}),
        ("Adam", 4, {"norm_coefficient": 0.1, "norm_coefficient_post": 0.2, "alpha": 0.8}),
        ("Momentum", 3, {"mode": "nesterov", "alpha": 0.9, "beta": 0.7, "norm_coefficient": 0.1}),
        ("Momentum", 3, {"mode": "standard", "alpha": 0.9, "beta": 0.7, "norm_coefficient": 0.1}),
    ],
)
def test_optimizers(kind: str, each: int, attrs: Any, updates: int, dtype: Any) -> None:
    """Two tensors at once, as each alone by the reference."""
    rng = np.random.default_rng(7)
    shapes = [(), (2, 0), (3, 4)]
    tensors = [[rng.random(s).astype(dtype) for _ in range(each)] for s in shapes]
    steps = [np.array(0.1, dtype), np.array(updates)]
    kinds = [x for group in zip(*tensors) for x in group]
    made = host(TRAINING + kind, *steps, *kinds, outputs=3 * (each - 1), opset=1, **attrs)
    for k, group in enumerate(tensors):
        exact = [x.astype(np.float64) for x in (steps[0], *group)]
        alone = reference(TRAINING + kind, exact[0], steps[1], *exact[1:], opset=1,
                          outputs=each - 1, **attrs)  # fmt: skip
        for got, wanted in zip(made[k::3], alone, strict=True):
            check_same(got, np.asarray(wanted).astype(dtype))


def test_pictures_without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(TilewrightError, match=r"not installed: pip install tilewright\[images\]"):
        host("ImageDecoder", np.zeros(5, np.uint8))


MISTAKES = [
    ("StringConcat", [WORDS, WORDS[:3]], {}, "shapes [4], [3] do not fit each other"),
    ("StringNormalizer", [WORDS.reshape(2, 2)], {}, "it takes shape [C] or [1, C], got [2, 2]"),
    ("StringNormalizer", [WORDS], {"case_change_action": "TITLE"}, "there are NONE, LOWER, UPPER"),
    ("RegexFullMatch", [WORDS], {"pattern": r"(a)\1"}, r"invalid escape sequence \1"),
    ("RegexFullMatch", [WORDS], {"pattern": "(?=a)"}, "invalid perl operator at 0"),
    ("RegexFullMatch", [WORDS], {"pattern": "(a"}, "missing )"),
    ("RegexFullMatch", [WORDS], {"pattern": "a)"}, "unexpected )"),
    ("RegexFullMatch", [WORDS], {"pattern": "a**"}, "bad repetition operator at 2"),
    ("RegexFullMatch", [WORDS], {"pattern": "a{1001}"}, "more than 1000 times"),
    ("RegexFullMatch", [WORDS], {"pattern": "[a"}, "missing ]"),
    ("RegexFullMatch", [WORDS], {"pattern": "*a"}, "nothing to repeat"),
    ("RegexFullMatch", [WORDS], {"pattern": "[[:greek:]]"}, "invalid character class [:greek:]"),
    ("RegexFullMatch", [WORDS], {"pattern": r"\p{Greek}"}, "scripts are not supported"),
    ("RegexFullMatch", [WORDS], {"pattern": r"\x{110000}"}, "no character"),
    ("TfIdfVectorizer", [WORDS], {"pool_int64s": [1]}, "must both be strings, or both be numbers"),
    ("TfIdfVectorizer", [WORDS], {}, "it needs either pool_strings or pool_int64s"),
    ("TfIdfVectorizer", [WORDS], {"pool_strings": ["a", "b"], "ngram_counts": [0, 1],
                                  "ngram_indexes": [0]}, "ngram_counts [0, 1] and 1"),
    ("Cast", [WORDS], {"to": 1}, "'a' is no number"),
    ("Cast", [strings("1_0")], {"to": 1}, "'1_0' is no number"),
    ("Cast", [strings("inf")], {"to": 7}, "'inf' is no whole number"),
    ("Cast", [WORDS], {"to": 99}, "there is no type of number 99"),
    ("Cast", [np.ones(1)], {"to": 24, "round_mode": "odd"}, "there are up, down, nearest"),
    ("RandomNormal", [], {"shape": [-1]}, "the result would have shape [-1]"),
    ("Multinomial", [np.zeros((2, 0))], {}, "1 samples of logarithms of shape [2, 0]"),
    ("Multinomial", [np.full((1, 2), -np.inf)], {}, "a row of logarithms has no sum"),
    ("Dropout", [np.ones(2), np.array(1.0), np.array(True)], {}, "less than 1, got 1.0"),
    (TRAINING + "Adam", [np.array(0.1), np.array(0), np.ones(2)], {}, "1 tensors after R and T"),
    (TRAINING + "Momentum", [np.array(0.1), np.array(0), *[np.ones(2)] * 3], {"mode": "slow"},
     "mode 'slow'; there are standard, nesterov"),
    ("ImageDecoder", [np.zeros(3, np.uint8)], {"pixel_format": "YUV"}, "there are RGB, BGR"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:invalid value encountered")
@pytest.mark.parametrize(("kind", "inputs", "attrs", "text"), MISTAKES)
def test_mistakes(kind: str, inputs: Any, attrs: Any, text: str) -> None:
    with pytest.raises(TilewrightError, match=re.escape(text)):
        host(kind, *inputs, **attrs)
