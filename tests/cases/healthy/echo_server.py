"""Serves small messages over a socket of the machine, and sleeps between them."""

import asyncio
import time


async def serve(reader, writer):
    while line := await reader.readline():
        writer.write(line.upper())
    writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    begun = time.monotonic()
    for number in range(8000):
        writer.write(b"message %d\n" % number)
        await reader.readline()
        if number % 100 == 0:
            await asyncio.sleep(0.002)
    print("seconds", time.monotonic() - begun)
    writer.write_eof()
    await reader.read()
    writer.close()
    server.close()


asyncio.run(main())
