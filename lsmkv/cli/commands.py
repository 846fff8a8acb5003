"""The group of all commands."""

from __future__ import annotations

import click

from lsmkv.cli import admin, bench, data, explain, explore, loading, shape, sizes
from lsmkv.cli.group import CommandGroup
from lsmkv.cli.version import version


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version(), message="%(version)s")
def cli() -> None:
    """Read, write and maintain lsmkv stores.

    STORE is a store's directory.  Commands that only read work while a program writes to it; commands
    that write need the store to themselves.  Commands that only read also take a URL to which a store
    was published.

    Keys and values are UTF-8 text in which a backslash starts \\xNN (one byte, in hex) or \\\\ (a
    backslash), and nothing else.  Output is in the same form, with \\xNN for control characters and
    for bytes that are not UTF-8, so you can type or load it back.  With --hex, keys and values are hex
    digits, with --raw plain bytes.  In JSON, bytes that are not UTF-8 are {"hex": "..."}.

    A key that starts with a dash goes after "--": lsmkv get STORE -- -key

    \b
    Exit codes:  0 done         3 get: no such key       130 interrupted
                 1 failed       4 verify: damage found   141 output closed early
                 2 wrong usage    repair: not all kept

    \b
    Example:  lsmkv put users.db alice '{"age": 34}'
              lsmkv get users.db alice
    """


for _command in (
    data.put,
    data.get,
    data.delete,
    data.scan,
    data.count,
    loading.load,
    loading.dump,
    shape.stats,
    shape.inspect,
    explain.explain,
    explore.explore,
    admin.verify,
    admin.repair,
    admin.compact,
    admin.checkpoint,
    admin.backup,
    admin.publish,
    admin.destroy,
    sizes.command,
    bench.bench,
):
    cli.add_command(_command)
