"""How commands end: mistakes as one line, Ctrl-C with status 130, output that cannot be written."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

from ..base.errors import TilewrightError

MISTAKE = 2
INTERRUPTED = 130
UNWRITTEN = 1


class Group(click.Group):
    """Commands in the order in which they were added, under headings; see the module for how they
    end."""

    headings: Sequence[tuple[str, Sequence[str]]] = ()

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **extra: Any
    ) -> Any:
        """Run a command line. On its own (`standalone_mode`) the process ends with its status."""
        if not standalone_mode:
            return super().main(args, standalone_mode=False, **extra)
        status = self._status(args, **extra)
        try:
            sys.stdout.flush()
        except OSError as error:
            status = _unwritten(error)
        sys.exit(status)

    def _status(self, args: Sequence[str] | None, **extra: Any) -> int:
        try:
            done = super().main(args, standalone_mode=False, **extra)
            return done if isinstance(done, int) else 0
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else int(end.code is not None)
        except (click.Abort, KeyboardInterrupt):
            _say("interrupted")
            return INTERRUPTED
        except click.ClickException as error:
            error.show()
            return error.exit_code
        except TilewrightError as error:
            _say(f"error: {error}")
            return MISTAKE
        except OSError as error:
            if error.filename is None and error.errno in (errno.EPIPE, errno.ENOSPC, errno.EIO):
                return _unwritten(error)
            raise

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which they were added."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands under their headings, each with its first sentence."""
        if not self.headings:
            super().format_commands(ctx, formatter)
            return
        for title, names in self.headings:
            with formatter.section(title):
                rows = [(name, self.commands[name].get_short_help_str(200)) for name in names]
                formatter.write_dl(rows)


def _say(text: str) -> None:
    with suppress(OSError):
        click.echo(text, err=True)


def _unwritten(error: OSError) -> int:
    """Say that output was lost, unless its reader went away, and let nothing else be written."""
    if error.errno != errno.EPIPE:
        _say(f"error: cannot write to standard output: {error.strerror}")
    null = os.open(os.devnull, os.O_WRONLY)  # what is buffered still is written when Python ends
    with suppress(OSError, ValueError):
        os.dup2(null, sys.stdout.fileno())
    os.close(null)
    return UNWRITTEN
