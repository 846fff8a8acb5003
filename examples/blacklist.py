"""A blacklist of addresses: a filter in memory instead of the whole list."""

from __future__ import annotations

from lsmkv.filters import BloomFilter


def main() -> None:
    blacklist = BloomFilter.for_bits(1_000_000, key_count=100_000)
    blacklist.add(b"192.168.1.1")
    print(f"{blacklist.byte_count:,} bytes, {blacklist.probe_count} probes for each address")

    stopped = [n for n in range(1, 100_000) if blacklist.may_contain(b"192.168.1.%d" % n)]
    print(f"stopped: 192.168.1.{stopped}")

    for n in range(100_000 - 1):
        blacklist.add(b"10.%d.%d.%d" % (n >> 16, n >> 8 & 255, n & 255))
    wrong = sum(blacklist.may_contain(b"172.16.%d.%d" % (n >> 8, n & 255)) for n in range(20_000))
    expected = blacklist.expected_rate(100_000)
    print(f"once it is full: {wrong / 20_000:.2%} of the innocent, {expected:.2%} expected")


if __name__ == "__main__":
    main()
