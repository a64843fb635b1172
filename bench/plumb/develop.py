#!/usr/bin/env python3
"""Runs the development scenarios of `plumb` and prints a table per question.

develop.py PROGRAM CONTROLLER... [--only own,beside] [--seeds 3] [--stack quinn] [--results DIR]

Seeds begin at 1. Results that are reported come from other seeds (docs/one-way-delay.md). A
variant is a build of PROGRAM: give each its own folder of results, because runs are stored by
scenario and not by program. All questions take about 3 min of CPU time per controller.
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys

PACKET = 1500 * 8


def flows(name, sender, receiver, workload, controller):
    return (
        f'[[scenario.traffic]]\nname = "{name}"\nfrom = "{sender}"\nto = "{receiver}"\n'
        f'workload = "{workload}"\ncontroller = "{controller}"\n'
    )


def subject(workload):
    return flows("subject", "left", "right", workload, "$controller")


def rival(controller):
    return flows("rival", "left", "right", "flows:1@1s", controller)


LINK = {"rate": "20Mbps", "rtt": "40ms"}
BUFFERS = {"queue": [34, 45, 55, 67, 80, 100, 134, 268]}
PRESETS = {"path": ["dsl", "cable", "wifi", "lte", "leo"]}
UPLOAD = flows("upload", "right", "left", "flows:1@1s", "cubic")


def megabits(outcome):
    return outcome["groups"]["subject"]["throughput_bps"] / 1e6


def share(outcome):
    own, other = (outcome["groups"][group]["throughput_bps"] for group in ("subject", "rival"))
    return 100 * own / (own + other)


def used(outcome):
    return outcome["links"]["left-right"]["utilisation_percent"]


def jain(outcome):
    rates = [flow["throughput_bps"] for flow in outcome["groups"]["subject"]["flows"]]
    squares = len(rates) * sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / squares if squares else 0.0


def queue(outcome):
    """95th percentile of the queue in packets, over bins of the counted time."""
    link = outcome["links"]["left-right"]
    counted = outcome["counted_seconds"] or outcome["seconds"]
    bins = link["queue_mean"]
    bins = sorted(bins[math.ceil(len(bins) * (1 - counted / outcome["seconds"])):])
    return bins[math.ceil(0.95 * len(bins)) - 1] if bins else 0.0


def queue_ms(outcome):
    return queue(outcome) * PACKET / outcome["links"]["left-right"]["rate_bps"] * 1e3


def mean_time(outcome):
    return outcome["groups"]["subject"]["times"]["mean_ms"]


def tail_time(outcome):
    return outcome["groups"]["subject"]["times"]["p95_ms"]


SHORT = [("p95 ms", queue_ms, 0), ("Jain", jain, 2), ("link %", used, 0)]
RATE = [("Mbps", megabits, 1), ("p95 packets", queue, 0)]
# Question: axes, path, traffic, end, warm-up, and columns (name, number, digits).
QUESTIONS = {
    "own": ({"flows": [2, 4, 8, 16]}, LINK | {"queue": "droptail:136p"},
            subject("flows:$flows@5s"), "60s", "20s", SHORT),
    "own-100": ({"flows": [2, 8, 16, 32]},
                {"rate": "100Mbps", "rtt": "40ms", "queue": "droptail:680p"},
                subject("flows:$flows@5s"), "40s", "15s", SHORT),
    "beside-cubic": (BUFFERS, LINK | {"queue": "droptail:${queue}p"},
                     subject("flows:1@1s") + rival("cubic"), "100s", "20s",
                     [("share %", share, 0)]),
    "beside-reno": (BUFFERS, LINK | {"queue": "droptail:${queue}p"},
                    subject("flows:1@1s") + rival("reno"), "100s", "20s",
                    [("share %", share, 0)]),
    "alone": ({"rate": ["1Mbps", "5Mbps", "20Mbps", "100Mbps"], "rtt": ["10ms", "40ms", "160ms"]},
              {"rate": "$rate", "rtt": "$rtt"}, subject("flows:1@1s"), "50s", "15s",
              [("link %", used, 0), ("p95 ms", queue_ms, 0)]),
    "paths": (PRESETS, {"preset": "$path"}, subject("flows:1@1s"), "40s", "10s", RATE),
    "upload": (PRESETS, {"preset": "$path"}, subject("flows:1@1s") + UPLOAD, "40s", "10s", RATE),
    "jitter": ({"jitter": ["1ms", "5ms", "20ms", "exponential:5ms"]}, LINK | {"jitter": "$jitter"},
               subject("flows:1@1s"), "50s", "15s", [("link %", used, 0), ("p95 ms", queue_ms, 0)]),
    "longer": ({"event": ["rtt:120ms@20s", "rtt:60ms@20s", "rate:5Mbps@20s"]},
               LINK | {"queue": "droptail:134p", "events": ["$event"]}, subject("flows:1@1s"),
               "150s", "90s", RATE),
    "web": ({"load": ["75%", "90%", "98%"]},
            {"rate": "20Mbps", "rtt": "20ms..120ms", "queue": "droptail:134p"},
            subject("web:$load of 20Mbps"), "12000 responses", "0s",
            [("mean ms", mean_time, 0), ("p95 ms", tail_time, 0)]),
}


def plan(name, options):
    axes, path, traffic, stop, warm_up, _ = QUESTIONS[name]
    lines = [f'question = "{name}?"', 'source = "ours"', f"seeds = {options.seeds}", "[sweep]"]
    lines += [f"{axis} = {json.dumps(values)}"
              for axis, values in ({"controller": options.controllers} | axes).items()]
    lines += ["[scenario]", f'stop = "{stop}"', f'warm-up = "{warm_up}"',
              f'stack = "{options.stack}"', "[scenario.network]", 'topology = "path"',
              "[scenario.network.path]"]
    lines += [f"{field} = {json.dumps(value)}" for field, value in path.items()]
    return "\n".join([*lines, "[scenario.keep]", 'queue = ["left-right"]', traffic])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("controllers", nargs="+")
    parser.add_argument("--only", default=",".join(QUESTIONS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--stack", default="quinn")
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("target/plumb"))
    options = parser.parse_args()
    unknown = set(options.only.split(",")) - set(QUESTIONS)
    if unknown:
        sys.exit(f"develop.py: unknown question {unknown.pop()!r}; one of {', '.join(QUESTIONS)}")
    options.results.mkdir(parents=True, exist_ok=True)
    for name in options.only.split(","):
        file = options.results / f"{name}.toml"
        file.write_text(plan(name, options))
        subprocess.run([options.program, "plan", "run", file, "--results", options.results],
                       check=True, stdout=subprocess.DEVNULL)
        cells = {}
        for run in sorted((options.results / name).glob("*.json")):
            run = json.loads(run.read_text())
            key = dict(run["key"])
            cells.setdefault((key.pop("controller"), " ".join(key.values())), []).append(
                run["outcome"])
        axes, columns = QUESTIONS[name][0], QUESTIONS[name][5]
        print(f"\n{name}: {', '.join(column for column, _, _ in columns)} by {', '.join(axes)}")
        for (controller, at), outcomes in sorted(cells.items()):
            if controller in options.controllers:
                numbers = [[number(o) for o in outcomes] for _, number, _ in columns]
                shown = "  ".join(
                    f"{statistics.mean(n):.{digits}f} ({min(n):.{digits}f} to {max(n):.{digits}f})"
                    for n, (_, _, digits) in zip(numbers, columns))
                print(f"{controller:28} {at:20} {shown}")


if __name__ == "__main__":
    main()
