"""aioquic as client and server of the interop tests."""

import asyncio
import os
import signal
import ssl
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from contract import Task  # noqa: E402

from aioquic.asyncio import QuicConnectionProtocol, connect, serve  # noqa: E402
from aioquic.h3.connection import H3Connection  # noqa: E402
from aioquic.h3.events import DataReceived, HeadersReceived  # noqa: E402
from aioquic.quic import events  # noqa: E402
from aioquic.quic.configuration import QuicConfiguration  # noqa: E402
from aioquic.quic.logger import QuicFileLogger  # noqa: E402
from aioquic.tls import CipherSuite  # noqa: E402

TESTS = ("handshake transfer longrtt retry resumption zerortt http3 multiconnect keyupdate chacha20 goodput crosstraffic").split()
WINDOW = 16 << 20


def configuration(task: Task) -> QuicConfiguration:
    config = QuicConfiguration(
        is_client=task.role == "client",
        alpn_protocols=[task.alpn],
        max_data=WINDOW,
        max_stream_data=WINDOW,
        idle_timeout=30.0,
        server_name="localhost",
    )
    if task.test == "chacha20":
        config.cipher_suites = [CipherSuite.CHACHA20_POLY1305_SHA256]
    if task.qlog:
        config.quic_logger = QuicFileLogger(task.qlog)
    if task.keys:
        config.secrets_log_file = open(task.keys, "a")
    if task.role == "server":
        config.load_cert_chain(task.certs / "cert.pem", task.certs / "priv.key")
    elif (task.certs / "ca.pem").is_file():
        config.load_verify_locations(cafile=str(task.certs / "ca.pem"))
    else:
        config.verify_mode = ssl.CERT_NONE
    return config


class Http(QuicConnectionProtocol):
    """Streams of either HTTP as whole bodies."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.h3 = None
        self.bodies = {}

    def start(self, alpn: str):
        if alpn == "h3" and self.h3 is None:
            self.h3 = H3Connection(self._quic)

    def quic_event_received(self, event):
        if isinstance(event, events.ProtocolNegotiated):
            self.start(event.alpn_protocol)
        if self.h3 is not None:
            for each in self.h3.handle_event(event):
                if isinstance(each, HeadersReceived):
                    self.headers(each.stream_id, dict(each.headers), each.stream_ended)
                elif isinstance(each, DataReceived):
                    self.data(each.stream_id, each.data, each.stream_ended)
        elif isinstance(event, events.StreamDataReceived) and event.stream_id % 4 == 0:
            self.data(event.stream_id, event.data, event.end_stream)

    def data(self, stream, data, ended):
        self.bodies.setdefault(stream, bytearray()).extend(data)
        if ended:
            self.ended(stream, bytes(self.bodies.pop(stream)))


class Server(Http):
    task: Task

    def headers(self, stream, headers, _ended):
        if b":method" in headers:
            body = self.task.served(headers[b":path"].decode())
            status = b"404" if body is None else b"200"
            body = body or b""
            self.h3.send_headers(stream, [(b":status", status), (b"content-length", str(len(body)).encode())])
            self.h3.send_data(stream, body, end_stream=True)

    def ended(self, stream, body):
        if self.h3 is None:
            words = body.decode(errors="replace").split()
            found = self.task.served(words[1]) if len(words) == 2 and words[0] == "GET" else None
            if found is None:
                self._quic.reset_stream(stream, 1)
            else:
                self._quic.send_stream_data(stream, found, end_stream=True)


class Client(Http):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.waiting = {}
        self.bad = set()
        self.done = asyncio.Event()
        self.handshake = None
        self.why = None

    def fetch(self, requests):
        for request in requests:
            stream = self._quic.get_next_available_stream_id()
            self.waiting[stream] = request
            if self.h3 is not None:
                authority = f"{request.host}:{request.port}".encode()
                pseudo = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", authority), (b":path", request.path.encode())]
                self.h3.send_headers(stream, pseudo, end_stream=True)
            else:
                self._quic.send_stream_data(stream, f"GET {request.path}\r\n".encode(), end_stream=True)
        self.transmit()

    def headers(self, stream, headers, ended):
        if headers.get(b":status") != b"200":
            self.bad.add(stream)
        if ended:
            self.ended(stream, b"")

    def ended(self, stream, body):
        request = self.waiting.pop(stream, None)
        if request is not None and stream not in self.bad:
            request.file.write_bytes(body)
        if not self.waiting:
            self.done.set()

    def quic_event_received(self, event):
        if isinstance(event, events.HandshakeCompleted):
            self.handshake = event
        elif isinstance(event, events.StreamReset):
            self.bad.add(event.stream_id)
            self.ended(event.stream_id, b"")
        elif isinstance(event, events.ConnectionTerminated):
            self.why = event
            self.done.set()
        super().quic_event_received(event)


async def client(task: Task) -> str | None:
    """What went wrong, or None."""
    tickets, tokens, config = [], [], configuration(task)
    for number, requests in enumerate(task.connections()):
        again = number > 0 and task.test in ("resumption", "zerortt")
        if again:
            if not tickets:
                return "the server sent no session ticket"
            config.session_ticket = tickets[-1]
        early = again and task.test == "zerortt"
        async with connect(
            task.address,
            requests[0].port,
            configuration=config,
            create_protocol=Client,
            session_ticket_handler=tickets.append,
            token_handler=tokens.append,
            wait_connected=not early,
        ) as connection:
            connection.start(task.alpn)
            if task.test == "keyupdate":
                await connection.ping()
                connection.request_key_update()
            connection.fetch(requests)
            await connection.done.wait()
            if connection.why is not None:
                return f"the connection ended: {connection.why}"
            missing = [each.url for each in requests if not each.file.is_file()]
            if missing:
                return f"no answer: {' '.join(missing)}"
            if task.test == "retry" and not connection._quic._retry_count:
                return "the server sent no Retry"
            if again and not connection.handshake.session_resumed:
                return "the session was not resumed"
            if early and not connection.handshake.early_data_accepted:
                return "the server took no 0-RTT"
            if number == 0 and task.test in ("resumption", "zerortt"):
                # A ticket that comes after the file.
                for _ in range(20):
                    if tickets:
                        break
                    await asyncio.sleep(0.05)
    return None


async def server(task: Task):
    Server.task = task
    tickets = {}
    config = configuration(task)
    await serve(
        task.ip,
        task.port,
        configuration=config,
        create_protocol=Server,
        session_ticket_handler=lambda ticket: tickets.__setitem__(ticket.ticket, ticket),
        session_ticket_fetcher=lambda ticket: tickets.pop(ticket, None),
        retry=task.test == "retry",
    )
    end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
    await end.wait()
    # The logs of connections that are not quite over yet.
    if config.quic_logger is not None:
        for trace in list(config.quic_logger._traces):
            config.quic_logger.end_trace(trace)


def main():
    task = Task(TESTS, TESTS)
    if task.role == "server":
        asyncio.run(server(task))
        # Connections that are still open want no farewell.
        os._exit(0)
    why = asyncio.run(client(task))
    if why:
        print(f"aioquic: {why}", file=sys.stderr)
        sys.exit(1)


try:
    main()
except (ConnectionError, OSError) as error:
    print(f"aioquic: {error!r}", file=sys.stderr)
    sys.exit(1)
