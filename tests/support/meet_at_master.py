#!/usr/bin/env python3
"""A program that knows only the run contract: every rank talks to rank 0 at MASTER_ADDR:MASTER_PORT, and rank R
writes what it learned to OUT/rank-R.json. With STAY=1 it then goes on until it is killed."""
import json
import os
import signal
import socket
import time

DEADLINE_S = 60
rank = int(os.environ["RANK"])
world_size = int(os.environ["WORLD_SIZE"])
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
until = time.monotonic() + DEADLINE_S
heard = []

if rank == 0:
    with socket.create_server(address, backlog=world_size) as server:
        server.settimeout(DEADLINE_S)
        while len(heard) < world_size - 1:
            connection, _ = server.accept()
            with connection:
                heard.append(connection.makefile().readline().strip())
                connection.sendall(b"welcome\n")
else:
    while True:
        try:
            with socket.create_connection(address, timeout=DEADLINE_S) as connection:
                connection.sendall(f"{rank} {socket.gethostname()}\n".encode())
                heard.append(connection.makefile().readline().strip())
            break
        except ConnectionRefusedError:  # rank 0 does not listen yet
            if time.monotonic() > until:
                raise
            time.sleep(0.02)

path = os.path.join(os.environ["OUT"], f"rank-{rank}.json")
with open(path + ".tmp", "w", encoding="utf-8") as out:
    json.dump({"host": socket.gethostname(), "heard": sorted(heard), "environment": dict(os.environ)}, out)
os.rename(path + ".tmp", path)
while os.environ.get("STAY") == "1":
    signal.pause()
