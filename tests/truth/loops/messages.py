"""Clients ask a server for entries of a dictionary; all of it is asyncio in one process."""

import asyncio
import hashlib
import time

TABLE = {f"key{number}": hashlib.sha256(b"%d" % number).hexdigest() for number in range(400_000)}


async def answer(reader, writer):
    while line := await reader.readline():
        writer.write((TABLE[line.decode().strip()] + "\n").encode())
        await writer.drain()
    writer.close()


async def client(port, first, count):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number in range(first, first + count):
        writer.write(b"key%d\n" % number)
        await reader.readline()
    writer.close()


async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    begun = time.monotonic()
    await asyncio.gather(*(client(port, 1000 * number, 1200) for number in range(4)))
    print("seconds", time.monotonic() - begun)
    server.close()


asyncio.run(main())
