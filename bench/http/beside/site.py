#!/usr/bin/env python3
"""`fathom serve` in front of a site: nginx with 1,000 files and a Python application, on loopback. As root or not; nothing leaves this host.

1. On each stack, 10,000 requests for the files over HTTP/3: each body is checked against the digest that nginx sends with it, which was made
   of the file. Then uploads to the application, which says what it got.
2. The certificate is replaced every second while fresh connections come: none may fail.
3. Chromium visits once over TCP, learns of HTTP/3 by Alt-Svc, and says over what the parts of the page came.
4. Requests per second beside Caddy's HTTP/3 reverse proxy before the same nginx, taking turns, and the ratio.

Prints Markdown; ends with 1 if anything of 1 to 3 is not as it must be. See docs/serve-measured.md. Wants nginx, caddy, chromium, certutil
(libnss3-tools), openssl and curl.
"""

import argparse
import base64
import hashlib
import http.server
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from beside import cpu_of

FILES = 1_000
REQUESTS = 10_000
CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PAGE = """<!doctype html><html><head><meta charset="utf-8"><title>site</title></head><body>
<img src="/app/slow" alt=""><pre id="report"></pre><script>
const lines = [];
const entry = (name) => performance.getEntriesByName(new URL(name, location.href).href).pop();
lines.push('first ' + performance.getEntriesByType('navigation')[0].nextHopProtocol);
(async () => {
  // HTTP/3 is tried beside TCP: it serves from the first request on that finds it ready.
  for (let n = 0; n < 40; n++) {
    await new Promise((done) => setTimeout(done, 50));
    const path = '/files/f' + String(n).padStart(4, '0') + '.bin?' + n;
    const body = await (await fetch(path)).arrayBuffer();
    const sum = new Uint8Array(await crypto.subtle.digest('SHA-256', body));
    lines.push(entry(path).nextHopProtocol + ' ' + n + ' ' + btoa(String.fromCharCode(...sum)));
  }
  document.getElementById('report').textContent = '\\n' + lines.join('\\n') + '\\n';
})();
</script></body></html>
"""


class Application(http.server.BaseHTTPRequestHandler):
    """Says what it got."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, body: bytes, kind: str = "application/json"):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/app/slow":
            # Keeps the page loading until it has said what it saw.
            time.sleep(6)
            return self.answer(b"<svg xmlns='http://www.w3.org/2000/svg' width='1' height='1'/>", "image/svg+xml")
        self.answer(json.dumps({"path": self.path, "headers": dict(self.headers.items())}).encode())

    def do_POST(self):
        length, digest = 0, hashlib.sha256()
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                digest.update(self.rfile.read(size))
                length += size
                self.rfile.readline()
            self.rfile.readline()
        else:
            left = int(self.headers.get("Content-Length", 0))
            while left:
                piece = self.rfile.read(min(left, 65_536))
                digest.update(piece)
                left -= len(piece)
                length += len(piece)
        self.answer(json.dumps({"length": length, "sha256": digest.hexdigest()}).encode())


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def free_port() -> int:
    """A port that is free for TCP and UDP."""
    while True:
        with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
            tcp.bind(("127.0.0.1", 0))
            try:
                udp.bind(tcp.getsockname())
                return tcp.getsockname()[1]
            except OSError:
                pass


def certificates(folder: pathlib.Path) -> None:
    """A root `ca.pem`, and two leaves for localhost, `a` and `b`."""

    def openssl(*args: str) -> None:
        subprocess.run(["openssl", *args], cwd=folder, check=True, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "30", "-subj", "/CN=Test root")
    for leaf in "ab":
        (folder / "ext").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
        openssl("req", "-new", *key, "-keyout", f"{leaf}.key", "-out", f"{leaf}.csr", "-subj", "/CN=localhost")
        openssl("x509", "-req", "-in", f"{leaf}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30", "-extfile", "ext", "-out", f"{leaf}.pem")


class Site:
    """nginx with the files and the application, and what is needed to check them."""

    def __init__(self, folder: pathlib.Path):
        self.folder, self.digests, self.children = folder, {}, []
        www = folder / "www"
        (www / "files").mkdir(parents=True)
        chance = random.Random(1)
        for n in range(FILES):
            body = chance.randbytes(min(int(chance.paretovariate(1.2) * 2_000), 2_000_000))
            self.add(f"/files/f{n:04}.bin", body)
        for name, size in (("1k", 1_000), ("100k", 100_000), ("1m", 1_000_000)):
            self.add(f"/files/{name}.bin", chance.randbytes(size))
        self.add("/index.html", PAGE.encode())
        self.application = Server(("127.0.0.1", 0), Application)
        threading.Thread(target=self.application.serve_forever, daemon=True).start()
        self.port = free_port()
        mapped = "\n".join(f'    "{path}" "{digest}";' for path, digest in self.digests.items())
        (folder / "nginx.conf").write_text(f"""
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx.err warn;
{"user root;" if os.getuid() == 0 else ""}
events {{ worker_connections 2048; }}
http {{
  access_log off; keepalive_requests 1000; client_max_body_size 1g;
  client_body_temp_path {folder}/tmp1; proxy_temp_path {folder}/tmp2; fastcgi_temp_path {folder}/tmp3; uwsgi_temp_path {folder}/tmp4; scgi_temp_path {folder}/tmp5;
  map_hash_max_size 8192; map_hash_bucket_size 256;
  map $uri $content_digest {{
{mapped}
  }}
  types {{ text/html html; application/octet-stream bin; }}
  server {{
    listen 127.0.0.1:{self.port};
    root {www};
    location / {{ add_header Content-Digest $content_digest; }}
    location /app/ {{ proxy_pass http://127.0.0.1:{self.application.server_port}; proxy_http_version 1.1; proxy_request_buffering off; }}
  }}
}}
""")
        self.start(["nginx", "-c", str(folder / "nginx.conf"), "-e", f"{folder}/nginx.err"], self.port)

    def add(self, path: str, body: bytes) -> None:
        (self.folder / "www" / path[1:]).write_bytes(body)
        self.digests[path] = f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"

    def start(self, command: list[str], port: int, **more) -> subprocess.Popen:
        """A server, once its TCP port answers."""
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(self.folder / "stderr", "ab"), **more)
        self.children.append(child)
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return child
            if child.poll() is not None:
                break
            time.sleep(0.05)
        sys.exit(f"{' '.join(command)} does not serve: {(self.folder / 'stderr').read_text()[-2000:]}")

    def stop(self, child: subprocess.Popen) -> None:
        child.terminate()
        child.wait()
        self.children.remove(child)

    def end(self) -> None:
        for child in list(self.children):
            self.stop(child)
        self.application.shutdown()


class Fathom:
    def __init__(self, site: Site, fathom: str, stack: str):
        self.site, self.port = site, free_port()
        folder = site.folder
        self.use("a")
        command = [fathom, "serve", "--listen", f"127.0.0.1:{self.port}", "--stack", stack, "--controller", "native:cubic"]
        command += ["--cert", "served.pem", "--key", "served.key", "--proxy", f"http://127.0.0.1:{site.port}", "--access-log", "access.log"]
        self.process = site.start(command, self.port, cwd=folder)

    def use(self, leaf: str) -> None:
        """Replaces the certificate, each file at once, as ACME clients do."""
        for kind in ("pem", "key"):
            new = self.site.folder / f"new.{kind}"
            shutil.copy(self.site.folder / f"{leaf}.{kind}", new)
            os.replace(new, self.site.folder / f"served.{kind}")

    def load(self, fathom: str, path: str, *more: str) -> dict:
        command = [fathom, "load", f"https://localhost:{self.port}{path}", "--ca", str(self.site.folder / "ca.pem"), "--json", "-", *more]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if not done.stdout:
            sys.exit(f"{' '.join(command)}: {done.stderr}")
        return json.loads(done.stdout)


failures = []


def must(holds: bool, what: str) -> str:
    if not holds:
        failures.append(what)
    return "yes" if holds else f"**no: {what}**"


def correctness(site: Site, fathom: str, stack: str) -> None:
    server = Fathom(site, fathom, stack)
    chance = random.Random(2)
    trace = site.folder / "trace.csv"
    rate = 1_000
    paths = [f"/files/f{chance.randrange(FILES):04}.bin" for _ in range(REQUESTS)]
    trace.write_text("".join(f"{n / rate},{path}\n" for n, path in enumerate(paths)))
    requests = server.load(fathom, "/", "--trace", str(trace), "--check-digest", "--timeout", "60s")["requests"]
    good = must(requests["completed"] == REQUESTS and requests["failed"] == 0, f"{stack}: {json.dumps(requests)}")
    # Uploads over HTTP/2, which curl speaks; over HTTP/3 tests/proxy.rs and Chromium do.
    body = random.Random(3).randbytes(20_000_000)
    (site.folder / "upload").write_bytes(body)
    curl = ["curl", "-sS", "--cacert", str(site.folder / "ca.pem"), "-H", "Expect:", "--data-binary", f"@{site.folder}/upload", f"https://localhost:{server.port}/app/echo"]
    echoed = json.loads(subprocess.run(curl, capture_output=True, text=True, timeout=120).stdout or "{}")
    upload = must(echoed.get("sha256") == hashlib.sha256(body).hexdigest(), f"{stack}: upload {echoed}")
    # The certificate is replaced while every request opens a connection.
    stop, swaps = threading.Event(), []

    def replace() -> None:
        while not stop.wait(1):
            server.use("ba"[len(swaps) % 2])
            server.process.send_signal(signal.SIGHUP)
            swaps.append(1)

    swapping = threading.Thread(target=replace)
    swapping.start()
    fresh = server.load(fathom, "/files/1k.bin", "--connections", "fresh", "--rate", "200", "-d", "10s", "--check-digest")["requests"]
    stop.set()
    swapping.join()
    reload = must(fresh["failed"] == 0 and fresh["completed"] > 1_000, f"{stack}: reload {json.dumps(fresh)}")
    site.stop(server.process)
    print(f"| {stack} | {requests['completed']} | {requests['failed']} | {good} | {upload} | {fresh['completed']} | {len(swaps)} | {fresh['failed']} | {reload} |", flush=True)


def chromium(site: Site, fathom: str, stack: str) -> None:
    browser = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    if not browser:
        print("Chromium is not installed: left out.")
        return
    server = Fathom(site, fathom, stack)
    home = site.folder / "home"
    database = home / ".pki" / "nssdb"
    if not database.exists():
        # Where Chromium looks for roots of the user's own.
        database.mkdir(parents=True)
        subprocess.run(["certutil", "-d", f"sql:{database}", "-N", "--empty-password"], check=True)
        subprocess.run(["certutil", "-d", f"sql:{database}", "-A", "-t", "C,,", "-n", "test", "-i", str(site.folder / "ca.pem")], check=True)
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage", "--disable-background-networking"]
        command += ["--disable-component-update", "--disable-sync", "--no-proxy-server", f"--user-data-dir={profile}"]
        # Over QUIC it takes roots that it does not ship only for hosts of this option; the port is another, so that nothing is forced.
        command += ["--origin-to-force-quic-on=localhost:1"]
        command += ["--host-resolver-rules=MAP localhost 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--dump-dom", f"https://localhost:{server.port}/"]
        environment = {**os.environ, "HOME": str(home)}
        dom = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment).stdout
    site.stop(server.process)
    report = re.search(r'<pre id="report">\n(.*?)</pre>', dom, re.S)
    lines = report.group(1).strip().splitlines() if report else []
    protocols = [line.split()[0] for line in lines[1:]]
    right = all(site.digests[f"/files/f{int(n):04}.bin"] == f"sha-256=:{digest}:" for _, n, digest in map(str.split, lines[1:]))
    holds = bool(lines) and lines[0] == "first h2" and len(protocols) == 40 and protocols[-1] == "h3" and right
    first = lines[0].removeprefix("first ") if lines else "nothing"
    h3 = protocols.count("h3")
    print(f"| {stack} | {first} | {h3} of {len(protocols)} | {must(holds, f'{stack}: Chromium said {lines[:3]} ... {protocols}')} |", flush=True)


def caddy(site: Site, args: argparse.Namespace) -> None:
    folder, port = site.folder, free_port()
    (folder / "Caddyfile").write_text(f"""{{
  admin off
  auto_https off
  default_bind 127.0.0.1
  storage file_system {folder}/caddy
}}
https://localhost:{port} {{
  tls {folder}/a.pem {folder}/a.key
  reverse_proxy http://127.0.0.1:{site.port}
}}
""")
    environment = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    theirs = site.start(["caddy", "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"], port, env=environment)
    for stack in args.stacks:
        ours = Fathom(site, args.fathom, stack)
        for name in ("1k", "100k", "1m"):
            rates, costs, failed = ([], []), ([], []), [0, 0]
            for turn in range(args.runs):
                for which in ((0, 1), (1, 0))[turn % 2]:
                    at, process = ((ours.port, ours.process), (port, theirs))[which]
                    command = [args.fathom, "load", f"https://localhost:{at}/files/{name}.bin", "--ca", str(folder / "ca.pem"), "--timestamps", "off"]
                    command += ["-c", "4", "-m", "4", "-d", f"{args.seconds}s", "--json", "-"]
                    before = cpu_of(process.pid)
                    requests = json.loads(subprocess.run(command, capture_output=True, text=True, timeout=120).stdout)["requests"]
                    failed[which] += requests["failed"]
                    rates[which].append(max(requests["completed"], 1) / args.seconds)
                    costs[which].append((cpu_of(process.pid) - before) * 1e6 / max(requests["completed"], 1))

            def ratio(of):
                each = [mine / theirs for mine, theirs in zip(*of)]
                return f"{statistics.median(each):.2f} ({min(each):.2f} to {max(each):.2f})"

            middle = statistics.median
            print(f"| {stack} | {name} | {middle(rates[0]):.0f} | {middle(rates[1]):.0f} | {ratio(rates)} ", end="")
            print(f"| {middle(costs[0]):.0f} | {middle(costs[1]):.0f} | {ratio(costs)} | {failed[0]} and {failed[1]} |", flush=True)
        site.stop(ours.process)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fathom", required=True)
    parser.add_argument("--stacks", nargs="+", default=["quinn", "noq", "quiche"])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("-d", "--seconds", type=int, default=4)
    parser.add_argument("--only", choices=("correctness", "chromium", "caddy"), help="a part")
    args = parser.parse_args()
    args.fathom = os.path.abspath(args.fathom)
    with tempfile.TemporaryDirectory(prefix="fathom-site-") as folder:
        folder = pathlib.Path(folder)
        certificates(folder)
        site = Site(folder)
        try:
            if args.only in (None, "correctness"):
                print("| stack | requests | failed | no wrong byte | 20 MB uploaded whole | fresh connections | certificates meanwhile | failed | none failed |")
                print("|---|---|---|---|---|---|---|---|---|")
                for stack in args.stacks:
                    correctness(site, args.fathom, stack)
            if args.only in (None, "chromium"):
                print("\n| stack | Chromium's first visit over | later requests over h3 | came over, bodies right |\n|---|---|---|---|")
                for stack in args.stacks:
                    chromium(site, args.fathom, stack)
            if args.only in (None, "caddy"):
                version = subprocess.run(["caddy", "version"], capture_output=True, text=True).stdout.split()
                print(f"\nBeside Caddy {version[0] if version else ''}, `-c 4 -m 4`, {args.runs} pairs of {args.seconds} s, {os.cpu_count()} cores\n")
                print("| stack | file | fathom, requests/s | Caddy | ratio (least to most) | fathom, CPU-µs per request | Caddy | ratio | failed |")
                print("|---|---|---|---|---|---|---|---|---|")
                caddy(site, args)
        finally:
            site.end()
    if failures:
        sys.exit("not as it must be:\n" + "\n".join(failures))


if __name__ == "__main__":
    main()
