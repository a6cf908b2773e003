"""Serves small messages over a socket with asyncio, into buffers of 4 KiB, and sleeps between them."""

import asyncio
import socket
import time


async def serve(end):
    loop = asyncio.get_running_loop()
    while message := await loop.sock_recv(end, 4096):
        await loop.sock_sendall(end, message.upper())


async def main():
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    loop = asyncio.get_running_loop()
    server = asyncio.create_task(serve(far))
    begun = time.monotonic()
    for number in range(10_000):
        await loop.sock_sendall(near, b"message %d\n" % number)
        await loop.sock_recv(near, 4096)
        if number % 100 == 0:
            await asyncio.sleep(0.002)
    print("seconds", time.monotonic() - begun)
    near.close()
    await server


asyncio.run(main())
