#!/usr/bin/env python3
"""Runs the plans of this folder with each rule for probes per timeout, and stores the results.

Needs the program that stacks.py builds. The runs of a rule are kept in target/overload/results/RULE, so an interrupted study
continues. Writes bench/results/overload/NAME.csv (one run a line) and NAME.json (stacks, plan, rules, CPU time).

Usage: run.py [NAME...] [--seeds N] [--jobs N] [--scale X]
"""
import argparse
import csv
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

try:
    import tomllib
except ImportError:
    sys.exit(f"Python {sys.version.split()[0]} cannot read TOML: install Python 3.11 or newer")

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FOLDER = ROOT / "target" / "overload"
RESULTS = HERE.parent / "results" / "overload"
BOTH = ["stock", "1"]
STACKS = {"quinn": BOTH, "noq": BOTH, "quiche": BOTH}
# Rules (probes.rs) with which each plan's senders run. TCP at packet level has no such rule.
PLANS = {
    "loads": {**STACKS, "quinn": [*BOTH, "padding"], "TCP": ["stock"]},
    "resumed": {"quinn": BOTH, "noq": BOTH},
    "ramps": {"quinn": BOTH, "noq": BOTH, "TCP": ["stock"]},
    "shares": {"quinn": ["25%", "50%", "75%", "servers"], "noq": ["25%", "50%", "75%", "servers"], "quiche": ["25%", "50%", "75%"]},
    "losses": STACKS,
}
LINKS = ["r0-r1", "r5-r4"]
PURPOSES = ["handshake", "acknowledgements", "first_time", "duplicate", "after_close"]


def versions():
    """The versions of the stacks, as in Cargo.lock."""
    packages = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    return {p["name"]: p["version"] for p in packages if p["name"] in ("quinn-proto", "noq-proto", "quiche")}


def spent(name, more=0.0):
    """The CPU seconds of a plan's runs, over all calls of this script. Adds `more` to them."""
    path = FOLDER / "results" / f"{name}.cpu"
    seconds = more + (float(path.read_text()) if path.exists() else 0.0)
    path.write_text(f"{seconds:.1f}\n")
    return round(seconds, 1)


def run(name, sender, rule, options):
    """The results of a plan's runs of one sender under one rule."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "out.json")
        command = [str(FOLDER / "fathom-probes"), "plan", "run", str(HERE / f"{name}.toml"), "--only", f"sender={sender}"]
        command += ["--results", str(FOLDER / "results" / rule.replace("%", "-percent")), "--json", str(out)]
        for option in ("seeds", "jobs", "scale"):
            if getattr(options, option) is not None:
                command += [f"--{option}", str(getattr(options, option))]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, env={**os.environ, "PROBES": rule}, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent(name, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return json.loads(out.read_text())["results"]


def drops(links, parts):
    """Percent of the packets at the links that were dropped, in each of a number of equal parts of the run."""
    series = [links[link]["drops"] for link in LINKS]
    bins = min(len(one["arrived"]) for one in series)
    found = []
    for part in range(parts):
        span = slice(bins * part // parts, bins * (part + 1) // parts)
        arrived, dropped = (sum(sum(one[what][span]) for one in series) for what in ("arrived", "dropped"))
        found.append(round(100 * dropped / arrived, 4) if arrived else 0.0)
    return found


def mean(values):
    return sum(values) / len(values)


def row(rule, result):
    """The columns of a run. Values of a run with two directions are means of both."""
    outcome = result["outcome"]
    links, groups = outcome["links"], outcome["groups"]
    found = {"probes": rule, **result["key"], "seed": result["seed"], "seconds": round(outcome["seconds"], 3)}
    total = lambda field: sum(group[field] for group in groups.values())  # noqa: E731
    connections = total("connections")
    if all(link in links for link in LINKS):
        found["drops_percent"] = drops(links, 1)[0]
        found["last_third_drops_percent"] = drops(links, 3)[-1]
        found["mean_queue_packets"] = round(mean([links[link]["mean_queue"] for link in LINKS]), 3)
        carried = {p: sum(links[link]["bytes"]["arrived"][p] for link in LINKS) for p in PURPOSES}
        # Packets of TCP are not classified.
        other = sum(links[link]["bytes"]["arrived"]["other"] for link in LINKS)
        arrived = sum(carried.values()) + other
        found["bytes_per_connection"] = round(arrived / connections, 1)
        for purpose, count in carried.items():
            found[f"{purpose}_bytes_per_connection"] = round(count / connections, 1)
        found["arrived_mbps"] = round(arrived * 8 / outcome["seconds"] / len(LINKS) / 1e6, 4)
    found["body_mbps"] = round(total("body_bytes") * 8 / outcome["seconds"] / len(groups) / 1e6, 4)
    found["connections"] = connections
    for count in ("responses", "unfinished", "failed"):
        found[count] = total(count)
    times = (groups.get("forward") or next(iter(groups.values())))["times"]
    return found | {measure: times[measure] for measure in ("median_ms", "mean_ms", "p95_ms", "p99_ms", "max_ms")}


def steps(rule, result):
    """The columns of each load of a ramp: drops in its 100 s, and response times of its own requests."""
    links, all_groups = result["outcome"]["links"], result["outcome"]["groups"]
    order = {"up": 0, "": 1, "down": 2}
    names = [name.removeprefix("forward ") for name in all_groups if name.startswith("forward ")]
    names.sort(key=lambda name: (order[name.partition(" ")[2]], int(name.split()[0]) * (-1 if name.endswith("down") else 1)))
    for step, (name, percent) in enumerate(zip(names, drops(links, len(names)))):
        groups = [all_groups[f"{way} {name}"] for way in ("forward", "reverse")]
        load, _, way = name.partition(" ")
        found = {"probes": rule, **result["key"], "seed": result["seed"], "step": step + 1, "load": int(load), "way": way or "top", "drops_percent": percent}
        found["unfinished"] = sum(group["unfinished"] for group in groups)
        times = groups[0]["times"]
        yield found | {measure: times[measure] for measure in ("median_ms", "mean_ms", "p95_ms")}


def study(name, options):
    rows = []
    for sender, rules in PLANS[name].items():
        for rule in rules:
            print(f"{name}: {sender}, probes: {rule}", file=sys.stderr, flush=True)
            for result in run(name, sender, rule, options):
                rows += steps(rule, result) if name == "ramps" else [row(rule, result)]
    RESULTS.mkdir(parents=True, exist_ok=True)
    with open(RESULTS / f"{name}.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(column for one in rows for column in one)), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    stacks = (HERE / "stacks.py").read_text()
    about = {
        "stacks": versions(),
        "plan": (HERE / f"{name}.toml").read_text(),
        "rules": PLANS[name],
        "edits": {"probes.rs": (HERE / "probes.rs").read_text(), "stacks.py": stacks[stacks.index("MODULE =") : stacks.index("class Refused")]},
        "cpu_seconds": spent(name),
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(about, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"a plan: {', '.join(PLANS)} (default: all)")
    parser.add_argument("--seeds", type=int, help="number of seeds, instead of the plan's")
    parser.add_argument("--jobs", type=int, help="concurrent runs (default: one per core)")
    parser.add_argument("--scale", type=float, help="factor for the length of runs, for a quick look")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in PLANS]
    if unknown:
        parser.error(f"there is no plan {unknown[0]}; plans: {', '.join(PLANS)}")
    if not (FOLDER / "fathom-probes").exists():
        sys.exit("run.py: build the stacks first: python3 bench/overload/stacks.py")
    for name in options.names or PLANS:
        try:
            study(name, options)
        except subprocess.CalledProcessError as failed:
            sys.exit(f"run.py: {name}: {' '.join(failed.cmd)} failed with {failed.returncode}")


if __name__ == "__main__":
    main()
