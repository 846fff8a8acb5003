"""What the engine asks of a store in object storage."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from lsmkv.options import Options
from lsmkv.read.view import SuperVersion
from lsmkv.sstable.block_cache import BlockCache
from lsmkv.storage.storage import Storage
from lsmkv.tree.version_set import VersionSet

if TYPE_CHECKING:
    from lsmkv.inspection.verify import VerifyReport


class Published(Protocol):
    """A store in object storage, which the engine only reads."""

    @property
    def generation(self) -> int:
        """The number of its open state."""

    def tables(
        self, storage: Storage, directory: str, options: Options, cache: BlockCache
    ) -> VersionSet:
        """The version set of the engine; called once, first."""

    def recover(self) -> tuple[SuperVersion, int]:
        """The newest state, and its last sequence number."""

    def verify(self, progress: Callable[[int, int], None] | None) -> VerifyReport:
        """Check every byte of that state."""

    def close(self) -> None:
        """End all requests, without waiting."""
