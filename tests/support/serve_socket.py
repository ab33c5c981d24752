#!/usr/bin/env python3
"""Hands connections to a port of the loopback over to a Unix socket, so that a browser reaches what listens in a network
namespace: serve_socket.py PORT SOCKET"""
import asyncio
import sys

MAX_CONNECTIONS = 64


async def carry(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.close()


async def main():
    port, path = int(sys.argv[1]), sys.argv[2]
    places = asyncio.Semaphore(MAX_CONNECTIONS)

    async def serve(reader, writer):
        async with places:
            try:
                from_page, to_page = await asyncio.open_unix_connection(path)
            except OSError:
                writer.close()
                return
            await asyncio.gather(carry(reader, to_page), carry(from_page, writer))
            to_page.close()
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
