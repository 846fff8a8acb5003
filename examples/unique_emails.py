"""Accounts with unique e-mail addresses, registered by several threads, and money moved between them."""

from __future__ import annotations

import random
import tempfile
from concurrent.futures import ThreadPoolExecutor

import lsmkv
from lsmkv.typed import Int64, Str, TypedDB

THREADS = 8
PEOPLE = 40
TRIES = 200
START = 100


def main() -> None:
    with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as db:
        emails = TypedDB(db.prefixed(b"email/"), key=Str(), value=Int64())  # to account
        balances = TypedDB(db.prefixed(b"balance/"), key=Int64(), value=Int64())

        def register(number: int) -> bool:
            email = f"person{number % PEOPLE}@example.org"

            def work(t: lsmkv.Transaction) -> bool:
                if email in emails.on(t):
                    return False
                emails.on(t)[email] = number
                balances.on(t)[number] = START
                return True

            return db.transact(work, attempts=100)

        def pay(seed: int) -> None:
            draw = random.Random(seed)

            def work(t: lsmkv.Transaction) -> None:
                accounts = balances.on(t)
                payer, payee = draw.sample(list(emails.on(t).values()), 2)
                amount = min(draw.randrange(START), accounts[payer])
                accounts[payer] -= amount
                accounts[payee] += amount

            db.transact(work, attempts=100)

        with ThreadPoolExecutor(THREADS) as threads:
            new = sum(threads.map(register, range(TRIES)))
            list(threads.map(pay, range(TRIES)))

        print(f"{TRIES} tries to register {PEOPLE} addresses: {new} accounts")
        print(
            f"money: {sum(balances.values()):,} of {new * START:,}; least: {min(balances.values())}"
        )


if __name__ == "__main__":
    main()
