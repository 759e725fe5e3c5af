"""The command `cloudrun`: its own options, and errors of every kind, which end here, once."""

from __future__ import annotations

import re
import sys
from typing import Annotated, Any

import typer

from cloudrun import __version__
from cloudrun.cli.commands import Commands
from cloudrun.cli.context import Context
from cloudrun.cli.encoding import accept_every_letter
from cloudrun.errors import CloudrunError, Exit
from cloudrun.i18n import _

#: What a wrong command line raises. It is click's, and typer brings a click of its own in newer versions: typer is asked.
_UsageError: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "UsageError")

app = typer.Typer(
    name="cloudrun",
    help=_("Launch a training on a rented GPU box, close the lid, and find it running."),
    epilog=_('First: cloudrun host add box "ssh -p 23456 root@gpu.example.com"; then: cloudrun launch NAME -- python train.py'),
    cls=Commands,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        print(f"cloudrun {__version__}")
        raise typer.Exit


@app.callback()
def _settings(
    ctx: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help=_("Show tracebacks."), show_default=False)] = False,
    connect_timeout: Annotated[
        float | None,
        typer.Option("--connect-timeout", metavar="SECONDS", show_default=False,
                     help=_("How long a box that does not answer yet is tried (20, or ConnectTimeout of ssh).")),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help=_("Show the version."), show_default=False)
    ] = False,
) -> None:
    """`--debug` and `--connect-timeout` are here for the page of help: `_everywhere` has taken them."""


def run(arguments: list[str]) -> int:
    """Runs one command line and gives its exit code. No exception leaves it, whatever happens beneath."""
    # --json and --debug are looked for by hand first: an error in the command line itself has to honour them.
    accept_every_letter()
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    context = Context(debug="--debug" in own, json="--json" in own)
    try:
        result = app(_everywhere(context, arguments), standalone_mode=False, obj=context, prog_name="cloudrun")
    except typer.Exit as stop_:
        return stop_.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return context.fail(CloudrunError("interrupted"))
    except _UsageError as error:
        return _usage(context, error)
    except CloudrunError as error:
        return _failed(context, error)
    except BrokenPipeError:
        return _reader_gone()
    except SystemExit as end:  # a signal that ended an attach; or 1: what click makes of a broken pipe
        return end.code if isinstance(end.code, int) and end.code != 1 else _reader_gone()
    except Exception as error:
        return _failed(context, CloudrunError("internal", detail=f"{type(error).__name__}: {error}"))
    return result if isinstance(result, int) else int(Exit.OK)


def _everywhere(context: Context, arguments: list[str]) -> list[str]:
    """Takes what counts wherever it stands before `--`, so that it can be added at the end of a line that failed."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    rest: list[str] = []
    words = iter(arguments[:end])
    for word in words:
        name, equals, value = word.partition("=")
        if name == "--connect-timeout":
            context.connect_timeout_s = _seconds(value if equals else next(words, ""))
        elif word != "--debug":
            rest.append(word)
    return rest + arguments[end:]


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,5}(\.[0-9]+)?", text) or not float(text):
        words = _("--connect-timeout takes seconds, not {text!r}").format(text=text)
        raise CloudrunError("usage", detail=words, command="cloudrun")
    return float(text)


def _usage(context: Context, error: Any) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":  # giving nothing is how the help is asked for
        typer.echo(error.message)
        return int(Exit.USAGE)
    from cloudrun.cli.usage import usage_words

    where = error.ctx.command_path if error.ctx else "cloudrun"
    return context.fail(CloudrunError("usage", detail=usage_words(error), command=where))


def _failed(context: Context, error: CloudrunError) -> int:
    if context.debug:
        import traceback

        traceback.print_exc()
    return context.fail(error)


def _reader_gone() -> int:
    """stdout's reader went away (`| head`): the quiet end that every Unix tool has."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return int(Exit.OK)


def main() -> None:
    """Entry point of the installed command."""
    sys.exit(run(sys.argv[1:]))
