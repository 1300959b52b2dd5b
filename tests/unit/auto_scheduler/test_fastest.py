"""The fastest of what was measured, some of it more than once."""

from tilewright.auto_scheduler.fastest import KEPT, Fastest


def seen(*measurements: tuple[str, float]) -> Fastest[str, str]:
    found: Fastest[str, str] = Fastest()
    for steps, seconds in measurements:
        found.add("key", steps, seconds, f"{steps} {seconds}")
    return found


def test_the_least_of_what_was_measured_once() -> None:
    assert seen(("a", 3.0), ("b", 1.0), ("c", 2.0)).best("key") == (1.0, "b 1.0")
    assert seen().best("key") is None and seen(("a", 1.0)).best("other") is None


def test_the_median_of_what_was_measured_again() -> None:
    found = seen(("a", 1.0), ("b", 2.0), ("a", 5.0), ("b", 2.1), ("a", 4.0), ("b", 2.2))
    assert found.leaders("key") == [(2.1, "b 2.1"), (4.0, "a 4.0")]


def test_what_was_not_measured_again_is_not_believed() -> None:
    """The leader of three lost a quarter; the third may have been as lucky."""
    found = seen(("a", 1.0), ("b", 1.2), ("c", 1.1), ("a", 1.5), ("b", 1.2), ("a", 1.4))
    assert [value[0] for _, value in found.leaders("key")] == ["b", "a", "c"]
    found.add("key", "d", 0.5, "d 0.5")
    assert found.best("key") == (0.5, "d 0.5")


def test_slow_steps_are_forgotten() -> None:
    found = seen(*((f"s{n}", 1.0 + n) for n in range(5 * KEPT)))
    assert len(found.leaders("key")) <= 2 * KEPT
    assert found.best("key") == (1.0, "s0 1.0")
    assert list(found) == ["key"] and len(found) == 1
