#!/usr/bin/env python3
"""Holds the dashboard against a real Prometheus: it scrapes a `fathom serve` under load, and each query of grafana/dashboards/fathom.json must
be valid and, but for what cannot happen here, bring a series. Grafana itself is not needed. Wants prometheus in PATH.
"""

import json
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).parent
# Series that only trouble brings, or a certificate of files.
RARE = (
    "fathom_certificate_reloads_total",
    "fathom_clients_given_up_total",
    "fathom_handshakes_failed_total",
    "fathom_responses_abandoned_total",
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("write check.py PATH-OF-FATHOM")
    fathom, children = sys.argv[1], []
    dashboard = json.loads((HERE / "grafana/dashboards/fathom.json").read_text())
    with tempfile.TemporaryDirectory() as folder:
        port, metrics, upstream, api = (free_port() for _ in range(4))
        config = (HERE / "prometheus.yml").read_text().replace("fathom:9090", f"127.0.0.1:{metrics}").replace("5s", "1s")
        pathlib.Path(folder, "prometheus.yml").write_text(config)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
        try:
            children.append(subprocess.Popen([sys.executable, "-m", "http.server", str(upstream), "--bind", "127.0.0.1", "-d", str(HERE)], **quiet))
            serve = [fathom, "serve", "--listen", f"127.0.0.1:{port}", "--metrics", f"127.0.0.1:{metrics}", "--access-log", f"{folder}/log"]
            serve += ["--proxy", f"http://127.0.0.1:{upstream}", "--proxy-path", "/www"]
            children.append(subprocess.Popen(serve, **quiet))
            prometheus = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{api}"]
            children.append(subprocess.Popen(prometheus, **quiet))
            time.sleep(2)
            for path in ("/bytes/10000", "/www/index.html", "/bytes/10000", "/www/index.html"):
                load = [fathom, "load", f"https://localhost:{port}{path}", "--insecure", "--connections", "fresh", "--rate", "20", "-d", "3s"]
                subprocess.run(load, check=True, **quiet)
            time.sleep(3)
            wrong, asked = [], 0
            for panel in dashboard["panels"]:
                for target in panel["targets"]:
                    query = target["expr"].replace("$__rate_interval", "1m")
                    url = f"http://127.0.0.1:{api}/api/v1/query?" + urllib.parse.urlencode({"query": query})
                    try:
                        result = json.loads(urllib.request.urlopen(url, timeout=10).read())["data"]["result"]
                    except OSError as error:
                        result, query = [], f"{query}: {error}"
                    asked += 1
                    if not result and not any(name in query for name in RARE):
                        wrong.append(f"{panel['title']}: {query}")
            # Nothing is left out that the server exports.
            text = urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=10).read().decode()
            exported, shown = set(re.findall(r"^# TYPE (fathom_\w+)", text, re.M)), json.dumps(dashboard)
            left_out = sorted(name for name in exported if name not in shown)
        finally:
            for child in children:
                child.terminate()
                child.wait()
    print(f"{asked} queries, {len(wrong)} without a series; exported and not on the dashboard: {', '.join(left_out) or 'none'}")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
