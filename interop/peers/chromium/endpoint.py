"""Chromium without windows as client of the HTTP/3 test.

The browser loads a page from this program, over loopback; the page fetches the files from the server and hands them back.
"""

import base64
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from contract import Task  # noqa: E402

PATIENCE = 120.0
PAGE = """<!doctype html><title>fathom</title><script>
const urls = URLS;
Promise.all(urls.map(async (url, number) => {
  const answer = await fetch(url, {cache: 'no-store'});
  if (!answer.ok) throw new Error(url + ': ' + answer.status);
  const stored = await fetch('/' + number, {method: 'POST', body: await answer.arrayBuffer()});
  if (!stored.ok) throw new Error('not stored');
})).then(() => '', error => String(error)).then(why => fetch('/done', {method: 'POST', body: why}));
</script>"""


class Page(BaseHTTPRequestHandler):
    """Gives the page, takes the files."""

    task: Task
    done = threading.Event()
    why = "the browser did not load the page"

    def do_GET(self):
        self.answer(PAGE.replace("URLS", json.dumps([each.url for each in self.task.requests])).encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if self.path == "/done":
            Page.why = body.decode()
            self.answer(b"")
            Page.done.set()
        else:
            self.task.requests[int(self.path[1:])].file.write_bytes(body)
            self.answer(b"")

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def key_hash(certificate: Path) -> str:
    """SHA-256 of the leaf's public key, as Chromium wants it."""
    key = subprocess.run(["openssl", "x509", "-in", certificate, "-pubkey", "-noout"], check=True, capture_output=True).stdout
    der = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "der"], input=key, check=True, capture_output=True).stdout
    return base64.b64encode(hashlib.sha256(der).digest()).decode()


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    task = Page.task = Task(client_tests=["http3"])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    first = task.requests[0]
    with tempfile.TemporaryDirectory() as profile, open(task.logs / "browser.log" if task.logs.is_dir() else os.devnull, "wb") as log:
        options = [
            # The sandbox does not start as root; what is loaded here is our own.
            *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"),
            # It asks nobody but the server for anything.
            *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-proxy-server"),
            f"--host-resolver-rules=MAP localhost {task.address}, MAP * ~NOTFOUND, EXCLUDE {task.address}, EXCLUDE 127.0.0.1",
            # Without a profile of its own it takes no key by its hash.
            f"--user-data-dir={profile}",
            f"--origin-to-force-quic-on=localhost:{first.port}",
            f"--ignore-certificate-errors-spki-list={key_hash(task.certs / 'cert.pem')}",
            # The page and the files are of different origins.
            "--disable-web-security",
            "--remote-debugging-port=0",
        ]
        if task.keys:
            options.append(f"--ssl-key-log-file={task.keys}")
        if task.qlog:
            # Its own format: it writes no qlog.
            options.append(f"--log-net-log={task.qlog}/netlog.json")
        page = f"http://127.0.0.1:{server.server_port}/"
        browser = subprocess.Popen(
            [os.environ["FATHOM_BROWSER"], *options, page], stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
        try:
            Page.done.wait(PATIENCE)
        finally:
            # The processes that it started end with it.
            browser.terminate()
            try:
                browser.wait(3)
            except subprocess.TimeoutExpired:
                browser.kill()
                browser.wait()
    if Page.why:
        print(f"chromium: {Page.why}", file=sys.stderr)
        sys.exit(1)


main()
