"""Options: where a value comes from, and its type."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tilewright.base import config
from tilewright.base.errors import TilewrightError


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for option in config.options():
        if option.env:
            monkeypatch.delenv(option.env, raising=False)
        config.set_option(option.name, None)
    yield
    for option in config.options():
        config.set_option(option.name, None)


def test_scope_goes_before_process_before_environment_before_default(monkeypatch):
    assert config.get("num_threads") == 0
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "3")
    assert config.get("num_threads") == 3
    config.set_option("num_threads", 4)
    assert config.get("num_threads") == 4
    with config.scoped(num_threads=5):
        with config.scoped(num_threads="6", verify=True):
            assert (config.get("num_threads"), config.get("verify")) == (6, True)
        assert (config.get("num_threads"), config.get("verify")) == (5, False)
    config.set_option("num_threads", None)
    assert config.get("num_threads") == 3


def test_scopes_end_with_an_error_too():
    with pytest.raises(ZeroDivisionError), config.scoped(opt_level=0):
        raise ZeroDivisionError
    assert config.get("opt_level") == 2


def test_a_thread_does_not_see_the_scopes_of_another():
    seen = []
    with config.scoped(opt_level=1):
        thread = threading.Thread(target=lambda: seen.append(config.get("opt_level")))
        thread.start()
        thread.join()
    assert seen == [2]


@pytest.mark.parametrize(
    ("text", "value"), [("1", True), ("on", True), ("No", False), ("", False), ("FALSE", False)]
)
def test_booleans(monkeypatch, text, value):
    monkeypatch.setenv("TILEWRIGHT_CACHE", text)
    assert config.get("cache") is value


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("opt_level", 3.0, 3),
        ("disabled_pass", "a, b", ("a", "b")),
        ("disabled_pass", ["x"], ("x",)),
        ("cache_dir", "~/x", Path("~/x").expanduser()),
        ("verify", 1, True),
    ],
)
def test_values_are_converted(name, value, expected):
    with config.scoped(**{name: value}):
        assert config.get(name) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [("opt_level", 1.5), ("opt_level", True), ("verify", 2), ("disabled_pass", 3)],
)
def test_values_of_other_types_are_refused(name, value):
    with (
        pytest.raises(TilewrightError, match=f"option '{name}' takes"),
        config.scoped(**{name: value}),
    ):
        pass


def test_options_answer_to_the_keys_of_tvm():
    with config.scoped(**{"tir.disable_vectorize": True}):
        assert config.get("disable_vectorize") is config.get("tir.disable_vectorize") is True
    assert config.find("tir.disable_cse_tir").name == "disable_cse"


def test_the_key_of_code_names_what_differs():
    assert config.code_key() == ""
    with config.scoped(verify=True, num_threads=3):
        assert config.code_key() == ""
    with config.scoped(disable_cse=True, opt_level=3):
        assert config.code_key() == "disable_cse=True;opt_level=3"


def test_every_option_is_described():
    text = config.describe()
    for option in config.options():
        assert f"\n{option.name} (" in f"\n{text}"
        assert option.doc in text
        assert option.default is None or isinstance(option.default, option.type)


def test_an_option_is_registered_once():
    with pytest.raises(TilewrightError, match="registered already"):
        config.register(config.Option("cache", bool, True, "again"))
    with pytest.raises(TilewrightError, match="registered already"):
        config.register(config.Option("other", bool, True, "again", "TILEWRIGHT_CACHE"))


def test_the_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert config.cache_dir() == tmp_path / "tilewright"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert config.cache_dir() == Path("~/.cache/tilewright").expanduser()
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "x"))
    assert config.cache_dir() == tmp_path / "x"
