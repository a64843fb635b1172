"""picoquic, by way of aiopquic, as client and server of the interop tests."""

import asyncio
import ctypes
import os
import signal
import ssl
import sys
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from contract import Task  # noqa: E402

from aioquic.h3.connection import H3Connection  # noqa: E402
from aioquic.h3.events import DataReceived, HeadersReceived  # noqa: E402
from aioquic.quic.events import StreamDataReceived as H3Input  # noqa: E402
from aiopquic._binding import _transport  # noqa: E402
from aiopquic.asyncio import QuicConnectionProtocol, connect, serve  # noqa: E402
from aiopquic.asyncio.webtransport import serve_webtransport  # noqa: E402
from aiopquic.quic import events  # noqa: E402
from aiopquic.quic.configuration import QuicConfiguration  # noqa: E402

TESTS = "handshake transfer longrtt retry resumption zerortt http3 multiconnect keyupdate ecn chacha20 goodput crosstraffic".split()
CHACHA20 = 0x1303
PIECE = 256 << 10
# Transport parameter of TIMESTAMP frames: 1 wants them, 2 can send them, 3 both.
TIMESTAMP = 0x7158


def timestamps(context):
    """Sets what new connections of a started transport say of TIMESTAMP.

    aiopquic has no setting for it; picoquic's own function is in its extension. The context's address is what
    the extension keeps fifth in its object, after Python's head, the table of methods, weak references and the bridge.
    """
    wanted = int(os.environ.get("FATHOM_TIMESTAMP", "3"))
    if version("aiopquic") != "0.6.1":
        print("aiopquic: not the version whose layout is known: no TIMESTAMP", file=sys.stderr)
        return
    pointer = ctypes.sizeof(ctypes.c_void_p)
    quic = ctypes.c_void_p.from_address(id(context) + object.__basicsize__ + 3 * pointer)
    set_value = ctypes.CDLL(_transport.__file__).picoquic_set_default_tp_value
    set_value.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64]
    set_value.restype = None
    set_value(quic, TIMESTAMP, wanted)


def say_timestamps(task: Task, quic):
    """What both sides said of TIMESTAMP: a line in the log."""
    local, peer = quic.local_transport_parameters or {}, quic.peer_transport_parameters or {}
    task.logs.mkdir(parents=True, exist_ok=True)
    with open(task.logs / "timestamp.log", "a") as log:
        print(f"timestamp local={local.get('enable_time_stamp', '?')} peer={peer.get('enable_time_stamp', '?')}", file=log)


def configuration(task: Task) -> QuicConfiguration:
    config = QuicConfiguration(
        is_client=task.role == "client",
        alpn_protocols=[task.alpn],
        server_name="localhost",
        secrets_log_file=task.keys,
        qlog_dir=task.qlog,
        congestion_control_algorithm=os.environ.get("FATHOM_PEER_CONTROLLER", "bbr1"),
        # The kernel's own bound: 64 MiB of queue is no path of today.
        socket_buffer_size=2 << 20,
    )
    if task.test == "chacha20":
        config.cipher_suite = CHACHA20
    if task.test == "keyupdate" and task.role == "client":
        # Packets.
        config.key_update_interval = 30
    if task.role == "server":
        config.load_cert_chain(str(task.certs / "cert.pem"), str(task.certs / "priv.key"))
    elif (task.certs / "ca.pem").is_file():
        config.load_verify_locations(cafile=str(task.certs / "ca.pem"))
    else:
        config.verify_mode = ssl.CERT_NONE
    return config


class Protocol(QuicConnectionProtocol):
    """Streams as whole bodies."""

    task: Task

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.bodies = {}

    def quic_event_received(self, event):
        if isinstance(event, events.HandshakeCompleted):
            say_timestamps(self.task, self._quic)
        elif isinstance(event, events.StreamDataReceived):
            self.bytes_came(event.stream_id, bytes(event.data), event.end_stream)

    def bytes_came(self, stream, data, ended):
        if stream % 4 == 0:
            self.data(stream, data, ended)

    def data(self, stream, data, ended):
        self.bodies.setdefault(stream, bytearray()).extend(data)
        if ended:
            self.ended(stream, bytes(self.bodies.pop(stream)))


class Server(Protocol):
    tasks = set()

    def ended(self, stream, body):
        words = body.decode(errors="replace").split()
        found = self.task.served(words[1]) if len(words) == 2 and words[0] == "GET" else None
        if found is None:
            self._quic.reset_stream(stream, 1)
        else:
            sending = asyncio.ensure_future(self.send(stream, found))
            self.tasks.add(sending)
            sending.add_done_callback(self.tasks.discard)

    async def send(self, stream, body):
        at = 0
        while True:
            last = at + PIECE >= len(body)
            await self._quic.send_stream_data_drained(stream, body[at : at + PIECE], end_stream=last)
            if last:
                return
            at += PIECE


class Client(Protocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.h3 = None
        self.waiting = {}
        self.bad = set()
        self.done = asyncio.Event()
        self.handshake = None
        self.why = None

    def fetch(self, requests):
        if self.task.alpn == "h3":
            self.h3 = H3Connection(self._quic)
        for request in requests:
            stream = self._quic.get_next_available_stream_id()
            self.waiting[stream] = request
            if self.h3 is not None:
                authority = f"{request.host}:{request.port}".encode()
                pseudo = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", authority), (b":path", request.path.encode())]
                self.h3.send_headers(stream, pseudo, end_stream=True)
            else:
                self._quic.send_stream_data(stream, f"GET {request.path}\r\n".encode(), end_stream=True)

    def bytes_came(self, stream, data, ended):
        if self.h3 is None:
            return super().bytes_came(stream, data, ended)
        for each in self.h3.handle_event(H3Input(data=data, end_stream=ended, stream_id=stream)):
            if isinstance(each, HeadersReceived):
                if dict(each.headers).get(b":status") != b"200":
                    self.bad.add(stream)
                if each.stream_ended:
                    self.ended(stream, b"")
            elif isinstance(each, DataReceived):
                self.data(stream, each.data, each.stream_ended)

    def ended(self, stream, body):
        request = self.waiting.pop(stream, None)
        if request is not None and stream not in self.bad:
            request.file.write_bytes(body)
        if not self.waiting:
            self.done.set()

    def quic_event_received(self, event):
        super().quic_event_received(event)
        if isinstance(event, events.HandshakeCompleted):
            self.handshake = event
        elif isinstance(event, events.StreamReset):
            self.bad.add(event.stream_id)
            self.ended(event.stream_id, b"")
        elif isinstance(event, events.ConnectionTerminated):
            self.why = event
            self.done.set()

    def connect(self, addr):
        timestamps(self._transport)
        super().connect(addr)


async def client(task: Task) -> str | None:
    """What went wrong, or None."""
    config = configuration(task)
    twice = task.test in ("resumption", "zerortt")
    if twice:
        task.logs.mkdir(parents=True, exist_ok=True)
        tickets = task.logs / "tickets.bin"
        tickets.unlink(missing_ok=True)
        config.session_ticket_file = str(tickets)
    for number, requests in enumerate(task.connections()):
        again = twice and number > 0
        early = again and task.test == "zerortt"
        async with connect(
            task.address, requests[0].port, configuration=config, create_protocol=Client, wait_connected=not early
        ) as connection:
            connection.fetch(requests)
            await connection.done.wait()
            missing = [each.url for each in requests if not each.file.is_file()]
            if missing:
                return f"no answer: {' '.join(missing)}; {connection.why}"
            # The answers to 0-RTT come before the handshake is done.
            await asyncio.wait_for(connection.wait_connected(), 10)
            if again and not connection.handshake.session_resumed:
                return "the session was not resumed"
            if twice and not again:
                # The ticket may come after the file.
                await asyncio.sleep(0.3)
    return None


async def server(task: Task):
    config = configuration(task)
    end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
    if task.alpn == "h3":
        # No session is ever opened: it serves files.
        served = await serve_webtransport(
            task.ip,
            task.port,
            "/.well-known/none",
            handler=lambda _session: None,
            cert_file=config.certificate_file,
            key_file=config.private_key_file,
            configuration=config,
            web_folder=str(task.www),
        )
        timestamps(served._transport)
    else:
        served = await serve(task.ip, task.port, configuration=config, create_protocol=Server, retry=task.test == "retry")
        timestamps(served._engine._transport)
    await end.wait()
    # Ends the logs of connections that are still open.
    served.close()


def main():
    task = Task(TESTS, TESTS)
    Protocol.task = task
    if task.role == "server":
        asyncio.run(server(task))
        # Connections that are still open want no farewell.
        sys.stdout.flush()
        os._exit(0)
    why = asyncio.run(client(task))
    if why:
        print(f"aiopquic: {why}", file=sys.stderr)
        sys.exit(1)


try:
    main()
except (ConnectionError, OSError, RuntimeError, asyncio.TimeoutError) as error:
    print(f"aiopquic: {error!r}", file=sys.stderr)
    sys.exit(1)
