"""Files of the agent for NVTX, made by hand for tests."""

from __future__ import annotations

import numpy as np

from pinprof.read.chunked_file import CHUNK_MAGIC, VERSION
from pinprof.read.nvtx.file import CHUNK, CUT, HEADER, MAGIC, RECORD, REGISTERED, TEXT, NvtxKind

PAGE = 4096


class Writer:
    """One process's file: `say` what happens, then `bytes()`; each thread has chunks of one page."""

    def __init__(self, pid: int = 100, token: int = 1, parent: int = 0, lost: int = 0) -> None:
        self.head = np.zeros(1, HEADER)
        self.head[0] = (MAGIC, VERSION, pid, token, parent, 0, lost, PAGE, 0)
        self.chunks: list[tuple[list[tuple[int, ...]], bytearray]] = []
        self.of_thread: dict[int, int] = {}
        self.takings = 0

    def say(
        self,
        kind: NvtxKind,
        time_ns: int,
        text: str | bytes | None = None,
        *,
        tid: int = 100,
        value: int = 0,
        domain: int = 0,
        category: int = 0,
        registered: int = 0,
        cut: bool = False,
    ) -> None:
        """One event."""
        said = text.encode() if isinstance(text, str) else text or b""
        number = self.of_thread.get(tid)
        if number is None or self._left(number) < RECORD.itemsize + len(said):
            number = self.of_thread[tid] = len(self.chunks)
            self.takings += 1
            self.chunks.append(([(time_ns, self.takings << 32 | tid, 0, 0, 0, NvtxKind.THREAD, 0, 0)], bytearray()))
        records, texts = self.chunks[number]
        flags, word = (REGISTERED, registered) if registered else (0, 0)
        if text is not None:
            texts[:0] = said
            flags, word = TEXT | CUT * cut, PAGE - len(texts) | len(said) << 16
        records.append((time_ns, value, domain, category, word, kind, flags, 0))

    def _left(self, number: int) -> int:
        records, texts = self.chunks[number]
        return PAGE - CHUNK.itemsize - len(records) * RECORD.itemsize - len(texts)

    def bytes(self) -> bytes:
        """The whole file."""
        parts = [self.head.tobytes().ljust(PAGE, b"\0")]
        for records, texts in self.chunks:
            head = np.zeros(1, CHUNK)
            head["magic"], head["size"], head["records"] = CHUNK_MAGIC, PAGE, len(records)
            front = head.tobytes() + np.array(records, RECORD).tobytes()
            parts.append(front.ljust(PAGE - len(texts), b"\0") + bytes(texts))
        return b"".join(parts)
