#!/usr/bin/env python3
"""Checks the dashboard against a real Prometheus, without Grafana.

Prometheus scrapes a `fathom serve` under load. Each query of grafana/dashboards/fathom.json must be
valid and return a series, except for series that cannot occur here. Needs prometheus in PATH.

With --page FILE, the load lasts longer and goes through `fathom link`, and FILE shows the panels in
the dashboard's layout with Prometheus's data, for readers without Grafana.
"""

import argparse
import html
import json
import math
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
# Series that exist only after a failure, or with a certificate from files.
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


def ask(api: int, path: str, **fields: str) -> list:
    url = f"http://127.0.0.1:{api}/api/v1/{path}?" + urllib.parse.urlencode(fields)
    return json.loads(urllib.request.urlopen(url, timeout=10).read())["data"]["result"]


def legend(form: str, metric: dict) -> str:
    """As Grafana writes it."""
    return re.sub(r"{{\s*(\w+)\s*}}", lambda name: metric.get(name[1], ""), form) or ", ".join(metric.values())


# Okabe and Ito's colours, which colour-blind people can distinguish.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999")


def axis_text(value: float, unit: str) -> str:
    """A number with its unit as Grafana would shorten it."""
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "s":
        return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s"
    step = 1024 if unit == "bytes" else 1000
    power = min(int(math.log(value, step)), 3) if value >= step else 0
    suffix = {"bytes": "B", "Bps": "B/s", "reqps": "req/s", "ops": "/s"}.get(unit, "")
    return f"{value / step**power:.3g} {('', 'k', 'M', 'G')[power]}{suffix}"


def panel_html(panel: dict, series: list[tuple[str, list]], start: float, end: float) -> str:
    """A panel as an element of the dashboard's grid."""
    place, unit = panel["gridPos"], panel.get("fieldConfig", {}).get("defaults", {}).get("unit", "")
    points = [[(float(at), float(value)) for at, value in values if value != "NaN"] for _, values in series]
    top = max((value for line in points for _, value in line), default=0.0) * 1.05 or 1.0
    lines, names = [], []
    for number, ((name, _), line) in enumerate(zip(series, points)):
        colour, dash = COLOURS[number % len(COLOURS)], "" if number < len(COLOURS) else ' stroke-dasharray="4 3"'
        places = " ".join(f"{60 + 330 * (at - start) / (end - start):.1f},{150 - 140 * value / top:.1f}" for at, value in line)
        lines.append(f'<polyline fill="none" stroke="{colour}"{dash} stroke-width="1.5" points="{places}"/>')
        names.append(f'<span><b style="color:{colour}">&#9473;</b> {html.escape(name)}</span>')
    ticks = "".join(
        f'<line x1="60" x2="390" y1="{150 - 140 * part}" y2="{150 - 140 * part}" stroke="#ddd"/>'
        f'<text x="55" y="{154 - 140 * part}" text-anchor="end">{axis_text(top * part, unit)}</text>'
        for part in (0, 0.5, 1)
    )
    grid = f"grid-column:{place['x'] + 1}/span {place['w']}"
    return (
        f'<section style="{grid}"><h2>{html.escape(panel["title"])}</h2><svg viewBox="0 0 400 170">{ticks}{"".join(lines)}'
        f'<text x="60" y="166">0 s</text><text x="390" y="166" text-anchor="end">{end - start:.0f} s</text></svg><p>{" ".join(names) or "nothing"}</p></section>'
    )


PAGE = """<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>body{{font:14px sans-serif;margin:12px}}main{{display:grid;grid-template-columns:repeat(24,1fr);gap:10px}}
section{{border:1px solid #ccc;border-radius:4px;padding:6px 10px;min-width:0}}h2{{font-size:14px;margin:2px 0}}svg text{{font-size:9px}}p{{margin:2px 0;font-size:12px}}
span{{margin-right:10px}}@media(max-width:700px){{section{{grid-column:1/-1!important}}}}</style><h1>{title}</h1><main>{panels}</main>
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("fathom", help="the program")
    parser.add_argument("--page", type=pathlib.Path, metavar="FILE", help="write the panels with their data as a page")
    args = parser.parse_args()
    fathom, children = args.fathom, []
    dashboard = json.loads((HERE / "grafana/dashboards/fathom.json").read_text())
    with tempfile.TemporaryDirectory() as folder:
        port, link, metrics, upstream, api = (free_port() for _ in range(5))
        config = (HERE / "prometheus.yml").read_text().replace("fathom:9090", f"127.0.0.1:{metrics}").replace("5s", "1s")
        pathlib.Path(folder, "prometheus.yml").write_text(config)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
        try:
            children.append(subprocess.Popen([sys.executable, "-m", "http.server", str(upstream), "--bind", "127.0.0.1", "-d", str(HERE)], **quiet))
            serve = [fathom, "serve", "--listen", f"127.0.0.1:{port}", "--metrics", f"127.0.0.1:{metrics}", "--access-log", f"{folder}/log"]
            serve += ["--proxy", f"http://127.0.0.1:{upstream}", "--proxy-path", "/www", "--controller", "sync:signal=either=50,cubic=50"]
            children.append(subprocess.Popen(serve, **quiet))
            path = ["--rate", "10Mbps", "--rtt", "40ms"] if args.page else ["--rtt", "2ms"]
            children.append(subprocess.Popen([fathom, "link", "--listen", f"127.0.0.1:{link}", "--to", f"127.0.0.1:{port}", *path], **quiet))
            prometheus = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{api}"]
            children.append(subprocess.Popen(prometheus, **quiet))
            time.sleep(2)
            start = time.time()
            for path in ("/bytes/30000", "/www/index.html", "/bytes/30000", "/www/index.html"):
                load = [fathom, "load", f"https://localhost:{port}{path}", "--connect-to", f"127.0.0.1:{link}", "--insecure", "--connections", "fresh"]
                load += ["--rate", "30" if args.page else "20", "-d", "15s" if args.page else "3s"]
                subprocess.run(load, check=True, **quiet)
            time.sleep(3)
            end = time.time()
            wrong, asked, panels = [], 0, []
            for panel in dashboard["panels"]:
                series = []
                for target in panel["targets"]:
                    query = target["expr"].replace("$__rate_interval", "1m")
                    try:
                        result = ask(api, "query", query=query)
                    except OSError as error:
                        result, query = [], f"{query}: {error}"
                    asked += 1
                    if not result and not any(name in query for name in RARE):
                        wrong.append(f"{panel['title']}: {query}")
                    elif args.page:
                        over_time = target["expr"].replace("$__rate_interval", "8s")
                        found = ask(api, "query_range", query=over_time, start=str(start), end=str(end), step="1")
                        series += [(legend(target.get("legendFormat", ""), one["metric"]), one["values"]) for one in found]
                panels.append(panel_html(panel, series, start, end))
            if args.page:
                args.page.write_text(PAGE.format(title=html.escape(dashboard["title"]), panels="".join(panels)))
            # The dashboard shows every metric that the server exports.
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
