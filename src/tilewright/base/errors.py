"""What can go wrong, sorted by whose mistake it is.

A `TilewrightError` is the user's to mend and says what to do; an `InternalError` is a bug of the
compiler.
"""


class TilewrightError(RuntimeError):
    """Base of every error that a user of tilewright may want to catch."""


class MissingFunctionError(TilewrightError, AttributeError, ValueError):
    """There is no function of that name, in a module or in the registry."""


class UsageError(TilewrightError, ValueError):
    """A function was called with values that do not fit together."""


class OptionError(TilewrightError, AttributeError):
    """There is no option of that name, or it takes no such values."""


class ScheduleError(TilewrightError, ValueError):
    """A schedule primitive was used in a way that would be illegal."""


class CompileError(TilewrightError, ValueError):
    """A program could not be lowered, or code could not be generated for the target."""


class TargetError(TilewrightError, ValueError):
    """An unknown target, CPU or feature, or something that the target lacks."""


class ArgumentError(TilewrightError, ValueError):
    """A built function was called with arguments that do not fit it."""


class LendError(ArgumentError, BufferError):
    """An object does not lend its memory by DLPack."""


class OperandError(TilewrightError, TypeError):
    """A value of a kind that cannot stand in an expression."""


class DiagnosticError(TilewrightError, ValueError):
    """A script cannot be read; the text shows where."""


class ImportModelError(TilewrightError):
    """A model file cannot be read, or holds what is not supported; `of_model`: whatever sizes its
    inputs have."""

    of_model = False


class RPCError(TilewrightError):
    """A session on another machine, or in a process of its own, has ended or cannot go on."""


class InternalError(Exception):
    """An invariant of the compiler is broken: always a bug in tilewright."""
