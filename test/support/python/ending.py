"""What a program leaves behind when its node ends, for py_node_end_SUITE."""

import asyncio
import atexit
import ctypes
import logging
import os
import ssl
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor


def register(path):
    """Writes what it finds at the end into a file, and prints and logs something."""

    @atexit.register
    def at_exit():
        is_main = threading.current_thread() is threading.main_thread()
        with open(path, "a") as file:
            file.write(f"main thread: {is_main}\n")
        print("printed at exit")
        logging.getLogger("ending").warning("logged at exit")


def register_call(path):
    """Asks Erlang at the end."""
    import erlang  # Not in the processes of a pool, which import this module too.

    @atexit.register
    def at_exit():
        answer = erlang.call("lists", "reverse", [[1, 2]])
        with open(path, "a") as file:
            file.write(f"{answer}\n")


def register_error():
    atexit.register(lambda: 1 / 0)


def start_thread(path):
    """It is joined at the end: what it does takes a moment."""

    def work():
        time.sleep(0.5)
        with open(path, "a") as file:
            file.write("thread\n")

    # In a thread that Python has not started, it would be a daemon.
    threading.Thread(target=work, daemon=False).start()


def start_endless_thread():
    threading.Thread(target=threading.Event().wait, daemon=False).start()


def start_executor(path):
    """Its threads wait for work until `concurrent.futures` ends them."""
    global executor
    executor = ThreadPoolExecutor(1)

    def work():
        time.sleep(0.2)
        with open(path, "a") as file:
            file.write("executor\n")

    executor.submit(work)


def start_pool():
    """Starts two processes that wait for work, and returns their numbers."""
    global pool
    pool = ProcessPoolExecutor(2)
    return sorted(set(pool.map(slow_pid, range(4))))


def slow_pid(_):
    time.sleep(0.2)
    return os.getpid()


async def talk_tls():
    """A server and five clients, which connect and talk endlessly."""
    server_side, client_side = tls(ssl.PROTOCOL_TLS_SERVER), tls(ssl.PROTOCOL_TLS_CLIENT)
    server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=server_side)
    port = server.sockets[0].getsockname()[1]
    for _ in range(5):
        talkers.append(asyncio.ensure_future(talk(port, client_side)))


talkers = []


def tls(protocol):
    """Without verifying certificates."""
    context = ssl.SSLContext(protocol)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("aNULL:@SECLEVEL=0")
    return context


async def echo(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


async def talk(port, context):
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        for _ in range(20):
            writer.write(bytes(200_000))
            await reader.readexactly(200_000)
        writer.close()
        await writer.wait_closed()


def abort_in_exit_handler():
    """What no library may do, and OpenSSL does nearly so: it frees what threads still use."""
    libc = ctypes.CDLL(None)
    libc.on_exit(libc.abort, None)
