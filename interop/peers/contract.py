"""The runner's environment variables, for the peers written in Python."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

UNSUPPORTED = 127


def refuse(why: str):
    print(why, file=sys.stderr)
    sys.exit(UNSUPPORTED)


@dataclass
class Request:
    """One URL of REQUESTS and the file for its response."""

    url: str
    host: str
    port: int
    path: str
    file: Path


class Task:
    """The role, the test and the directories."""

    def __init__(self, client_tests=(), server_tests=()):
        env = os.environ
        self.role = env.get("ROLE", "")
        self.test = env.get("TESTCASE", "")
        if self.role not in ("client", "server"):
            refuse(f"ROLE is {self.role!r}: client or server")
        if self.test not in (client_tests if self.role == "client" else server_tests):
            refuse(f"{self.role}: test {self.test!r} is not supported")
        self.alpn = "h3" if self.test == "http3" else "hq-interop"
        self.www = Path(env.get("WWW", "/www"))
        self.certs = Path(env.get("CERTS", "/certs"))
        self.logs = Path(env.get("LOGS", "/logs"))
        self.ip = env.get("IP", "::")
        self.port = int(env.get("PORT", "443"))
        self.address = env.get("FATHOM_ADDRESS", "127.0.0.1")
        self.qlog = env.get("QLOGDIR") or None
        self.keys = env.get("SSLKEYLOGFILE") or None
        if self.qlog:
            os.makedirs(self.qlog, exist_ok=True)
        downloads = Path(env.get("DOWNLOADS", "/downloads"))
        self.requests = [request(url, downloads) for url in env.get("REQUESTS", "").split()]
        if self.role == "client" and not self.requests:
            print("REQUESTS names no URL", file=sys.stderr)
            sys.exit(1)

    def connections(self):
        """The requests of each connection in order: two connections for resumption and zerortt, one per request for multiconnect."""
        first, rest = self.requests[:1], self.requests[1:]
        if self.test in ("resumption", "zerortt"):
            return [first, rest]
        if self.test == "multiconnect":
            return [[each] for each in self.requests]
        return [self.requests]

    def served(self, path: str):
        """The contents of the file for a path below WWW, or None."""
        root = self.www.resolve()
        file = (root / path.split("?")[0].lstrip("/")).resolve()
        return file.read_bytes() if file.is_relative_to(root) and file.is_file() else None


def request(url: str, downloads: Path) -> Request:
    parts = urlsplit(url)
    file = downloads / (parts.path.rsplit("/", 1)[-1] or "index.html")
    return Request(url, parts.hostname or "localhost", parts.port or 443, parts.path or "/", file)
