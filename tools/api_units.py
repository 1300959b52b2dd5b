"""Which parameters, attributes and results of the reference are quantities, and which of them are
described without a unit.

A name says what kind of quantity it is (`timeout`, `bandwidth`, `angle`), unless the type says that
it is none. It has a unit where the name ends in one (`min_repeat_ms`), or where the docstring of
the function, of its class, or of what the docstring refers to ("as of `X`") names one of that kind.

`python -m tools.api_units` lists what has none.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tools.api_errors import Public, public

KINDS = {
    # what names say; the units that fit; endings of names that are units themselves
    "trials": (
        r"n_trials?|num_measure_trials|early_stopping|num_measures_per_round|n_iter|num_trials?"
        r"|max_trials|n_parallel|number|repeat|plan_size|repeats_to_cooldown|log_interval|retries",
        r"\b(?:measurements?|trials?|runs?|candidates?|programs?|times|calls?|steps?|measured"
        r"|configurations?|process(?:es)?|threads?|once|rounds?|builds|iterations?)\b",
        r"(?:_runs|_trials)",
    ),
    "time": (
        r"timeout|time_?out|duration|interval|latency|latencies|delay|cooldown|elapsed|deadline"
        r"|sleep|time|times|costs?|timestamp|time_limit|backoff|max_age|uptime",
        r"\b(?:(?:nano|micro|milli)?seconds?|ns|us|ms|s|minutes?|hours?|days)\b",
        r"(?:_ms|_us|_ns|_s|_seconds|_secs)",
    ),
    "bytes": (
        r"nbytes|workspace_size|(?:memory|cache)_limit|cache_size|capacity|alignment|\w*_memory"
        r"|(?:buffer|file|chunk|page|line|memory|total)_size|stack_size|offset_bytes",
        r"\b(?:bytes?|[KMG]i?B|bits?|elements?)\b",
        r"(?:_bytes|_mb|_kb|_gb|_bits)",
    ),
    "rate": (
        r"flops?|gflops?|gflops_s|bandwidth|throughput|peak|frequency|clock_rate",
        r"\bG?FLOPs?\b|GFLOP/s|FLOP/s|G?B/s|\boperations?\b|\b[kMG]?Hz\b|\b(?:a|per) second\b",
        r"(?:_hz|_khz|_gbs)",
    ),
    "ratio": (
        r"ratio|share|fraction|percent|percentile|probability|dropout|rate|threshold",
        r"\d|\b(?:shares?|percent|probabilit\w+|times|divided|points|scores?|overlap)\b"
        r"|\bof (?:all|the|its)\b",
        r"(?:_percent)",
    ),
    "scale": (
        r"scale|scales|spatial_scale|scale_[dhw]|zoom",
        r"\d|\b(?:times|pixels?|multipl\w+|divided|divid\w+|factors?|quantum|units?)\b|\*",
        r"(?:_factor)",
    ),
    "angle": (
        r"angles?|degrees|rotation|theta|phi",
        r"\b(?:radians?|degrees?|turns?)\b",
        r"(?:_deg|_rad)",
    ),
    "port": (r"ports?|port_end", r"\b(?:TCP|ports?)\b", r"(?:_ports?)"),
}
REFERENCE = (
    r"\b(?:as|options|arguments|parameters|rest|see|like|what)\b[^.;`]{0,40}`?([A-Za-z_][\w.]*)`?"
)


class Silent(NamedTuple):
    """A quantity that nothing gives a unit: where it stands, its name, and its kind."""

    path: str
    name: str
    kind: str


def kind_of(name: str) -> str | None:
    """The kind of quantity that a name speaks of; None where it is none, or has its unit itself."""
    for kind, (words, _, ends) in KINDS.items():
        if re.fullmatch(rf"(?:\w+_)?(?:{words})", name, re.IGNORECASE):
            return None if re.search(rf"{ends}$", name) else kind
    return None


def names(item: Public) -> Iterator[tuple[str, Any]]:
    """What may be a quantity: parameters, annotated attributes and properties, the result."""
    try:
        for p in inspect.signature(item.value).parameters.values():
            yield p.name, p.annotation
    except ValueError:
        pass
    if isinstance(item.value, type):
        for name, own in vars(item.value).items():
            # "number" of a node is its value
            if isinstance(own, property) and name[0] != "_" and kind_of(name) != "trials":
                yield name, own.fget.__annotations__.get("return")
        if dataclasses.is_dataclass(item.value):
            for field in dataclasses.fields(item.value):
                if not field.name.startswith("_"):
                    yield field.name, field.type
    else:
        result = item.calls[0].__annotations__.get("return")
        if re.search(r"int|float", str(result)):
            yield item.path.rsplit(".", 1)[-1], result


def texts(item: Public, name: str) -> Iterator[str]:
    """Where a unit may be named: the docstring, the class's, the property's, and what it
    refers to."""
    docs = [inspect.getdoc(item.value) or ""]
    if item.owner is not None:
        docs += [
            inspect.getdoc(item.owner) or "",
            inspect.getdoc(vars(item.owner).get("__init__")) or "",
        ]
        docs.append(inspect.getdoc(getattr(item.owner, name, None)) or "")
    yield from docs
    home = getattr(item.calls[0] if item.calls else item.value, "__globals__", {})
    for found in re.findall(REFERENCE, " ".join(docs[0].split())):
        value: Any = item.owner or home.get(found.split(".")[0])
        for part in found.split("."):
            value = getattr(value, part, None) or home.get(part)
        if value is not None:
            yield inspect.getdoc(value) or ""


def silent() -> list[Silent]:
    """All quantities of the reference without a unit."""
    return list(dict.fromkeys(one for item in public() for one in without_unit(item)))


def without_unit(item: Public) -> Iterator[Silent]:
    """Those of one function or class."""
    for name, annotation in names(item):
        kind = kind_of(name)
        if kind is not None and _number(annotation) and not _has_unit(item, name, kind):
            yield Silent(item.path, name, kind)


def _has_unit(item: Public, name: str, kind: str) -> bool:
    """Whether a sentence that speaks of the name, or what is said of a property or a result of that
    name, has a unit of the kind."""
    unit = KINDS[kind][1]
    own = inspect.getattr_static(item.value, name, None) if isinstance(item.value, type) else None
    said = own if isinstance(own, property) else item.value
    if (isinstance(own, property) or item.path.endswith(f".{name}")) and re.search(
        unit, inspect.getdoc(said) or "", re.IGNORECASE
    ):
        return True
    sentences = [
        s for text in texts(item, name) for s in re.split(r"(?<=[.;])\s", " ".join(text.split()))
    ]
    return any(re.search(unit, s, re.IGNORECASE) for s in sentences if re.search(rf"\b{name}\b", s))


def _number(annotation: Any) -> bool:
    """Whether a value of a type may be a quantity: text, tensors and trees are none."""
    said = str(annotation)
    if re.search(r"Tensor|Stage|Module|Callable|Range|bool", said):
        return False
    return bool(re.search(r"int|float|Any|None|empty|Expr|Array|Sequence", said))


def main() -> None:
    """Print them."""
    for one in silent():
        print(*one, sep=" | ")


if __name__ == "__main__":
    main()
