"""Serves small messages with asyncio, which takes 256 KiB from malloc for each read: a mapping made and given back."""

import asyncio
import sys
import time
from asyncio import selector_events

if "cured" in sys.argv:
    selector_events._SelectorSocketTransport.max_size = 16 << 10
MESSAGES = 12_000


async def serve(reader, writer):
    while line := await reader.readline():
        writer.write(line.upper())
    writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    begun = time.monotonic()
    for number in range(MESSAGES):
        writer.write(b"message %d\n" % number)
        await reader.readline()
    print("seconds", time.monotonic() - begun)
    writer.write_eof()
    await reader.read()
    writer.close()
    server.close()


asyncio.run(main())  # GUILTY
