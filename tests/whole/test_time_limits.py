"""No test can hang for ever: each wait has a limit, and interrupts come where they are awaited."""

from __future__ import annotations

import ast
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import heed_interrupts

TESTS = Path(__file__).parents[1]
OWN = {"time_limits.py", "event_loops.py"}  # whose waits are those that others use
WAITS = {"join", "wait", "result"}  # without an argument they wait for ever
PROCESSES = {"run", "call", "check_call", "check_output"}
INSTEAD = {
    "subprocess.Popen": "time_limits.started",
    "os.waitpid": "time_limits.exit_code",
    "asyncio.run": "event_loops.run",
}


def endless(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """The waits without a limit; what an event loop awaits has the limit of the loop."""
    nodes = list(ast.walk(tree))
    awaited = {node.value for node in nodes if isinstance(node, ast.Await)}
    for node in nodes:
        match node:
            case ast.While() if all(is_pause(statement) for statement in node.body):
                yield node
            case ast.Call(func=ast.Attribute(attr=method, value=ast.Name(id=module))) if (
                f"{module}.{method}" in INSTEAD
            ):
                yield node
            case ast.Call(func=ast.Attribute(attr=method, value=ast.Name("subprocess"))):
                if method in PROCESSES and not has_limit(node):
                    yield node
            case ast.Call(func=ast.Attribute(attr="communicate")) if not has_limit(node):
                yield node
            case ast.Call(func=ast.Attribute(attr=method), args=[]) if method in WAITS:
                if not has_limit(node) and node not in awaited:
                    yield node


def has_limit(call: ast.Call) -> bool:
    return any(keyword.arg in ("timeout", None) for keyword in call.keywords)


def is_pause(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Pass) or ast.unparse(statement).startswith("time.sleep(")


@pytest.mark.parametrize(
    "code",
    [
        "thread.join()", "event.wait()", "future.result()", "process.communicate(b'')", "os.wait()",
        "subprocess.run(command, check=True)", "subprocess.Popen(command)", "os.waitpid(child, 0)",
        "asyncio.run(main())", "while not done:\n    pass", "while not done:\n    time.sleep(0.1)",
    ],
)  # fmt: skip
def test_a_wait_without_a_limit_is_noticed(code: str) -> None:
    assert list(endless(ast.parse(code)))


def test_every_wait_of_a_test_has_a_limit() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{wait.lineno}: {ast.unparse(wait)}"
        for path in sorted(TESTS.rglob("*.py"))
        if path.name not in OWN
        for wait in endless(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == [], f"give timeout=WAIT_S, or use time_limits.join, or of {INSTEAD}"


def test_interrupts_are_heeded_in_a_job_that_was_to_ignore_them() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        heed_interrupts()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
