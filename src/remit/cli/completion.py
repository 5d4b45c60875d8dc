"""`remit completion SHELL`."""

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the shell completion script.

    For bash, put this into ~/.bashrc: eval "$(remit completion bash)"
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.ClickException(f"no completion for {shell}")
    root = ctx.find_root().command
    click.echo(kind(root, {}, "remit", "_REMIT_COMPLETE").source())
