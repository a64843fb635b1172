#!/usr/bin/env python3
"""Runs a scenario of the laboratory in ns-2 and stores the results.

Reads the plan (bench/ns2/NAME.toml), expands its sweep, and runs bench/ns2/flows.tcl with ns-2 for each
combination and seed. The arguments of the script come from the plan alone. A field that the script cannot express is refused.
Writes bench/results/ns2/NAME.json (ns-2's version, plan, script, commands) and NAME.csv (measures and counts, one run a line).

Usage: run.py [NAME...] [--ns ns] [--jobs N]
"""
import argparse
import concurrent.futures
import csv
import itertools
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys

try:
    import tomllib
except ImportError:
    sys.exit(f"Python {sys.version.split()[0]} cannot read TOML: install Python 3.11 or newer")

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = HERE.parent / "results" / "ns2"
MEND = "ns-2 is missing: install it (Debian and Ubuntu: apt-get install ns2), or name it with --ns"
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "kbps": 1e3, "Mbps": 1e6, "Gbps": 1e9, "p": 1.0}


class Refused(Exception):
    """A field of a plan that the script cannot express."""


def number(text):
    """The value of a number with a unit, in seconds, bit/s or packets."""
    found = re.fullmatch(r"([0-9.]+)([a-zA-Z]+)", text)
    if not found or found[2] not in UNITS:
        raise Refused(f"'{text}' is not a number with one of the units {', '.join(UNITS)}")
    return float(f"{float(found[1]) * UNITS[found[2]]:.9g}")


def substitute(value, values):
    """A field of the scenario with the values of the sweep, which `values` has as `axis` or `axis.field`."""
    if isinstance(value, dict):
        return {name: substitute(field, values) for name, field in value.items()}
    if isinstance(value, list):
        return [substitute(field, values) for field in value]
    if not isinstance(value, str):
        return value
    if value.startswith("$") and value[1:] in values:
        return values[value[1:]]
    return re.sub(r"\$(?:\{([\w.-]+)\}|([\w.-]+))", lambda m: str(values[m[1] or m[2]]), value)


def combinations(plan):
    """The combinations of the sweep with their scenarios, by axis and value; the last axis varies fastest."""
    if plan.keys() - {"question", "source", "seeds", "seed", "sweep", "scenario"}:
        raise Refused(f"ns-2's script cannot express {sorted(plan)}")
    axes = plan.get("sweep", {})
    for point in itertools.product(*axes.values()):
        key, values = {}, {}
        for axis, value in zip(axes, point):
            variant = value if isinstance(value, dict) else {"name": value}
            key[axis] = {True: "true", False: "false"}.get(variant["name"]) if isinstance(variant["name"], bool) else str(variant["name"])
            values[axis] = variant["name"]
            values |= {f"{axis}.{field}": of for field, of in variant.items()}
        yield key, substitute(plan["scenario"], values)


class Fields:
    """Fields of a table, each to be taken once."""

    def __init__(self, name, table):
        self.name, self.table = name, dict(table)

    def take(self, field, default=None):
        if field not in self.table and default is None:
            raise Refused(f"{self.name} has no '{field}'")
        return self.table.pop(field, default)

    def expect(self, field, *wanted):
        value = self.take(field)
        if value not in wanted:
            raise Refused(f"{self.name}: {field} = {value!r}; ns-2's script has {wanted[0]!r} only")
        return value

    def end(self):
        if self.table:
            raise Refused(f"{self.name}: ns-2's script cannot express {sorted(self.table)}")


def match(pattern, text):
    found = re.fullmatch(pattern, text)
    if not found:
        raise Refused(f"'{text}' is not of the form {pattern}")
    return found.groups()


def growth(controller, args):
    """The sender's class, its rule of growth, and the arguments of Vegas."""
    if controller == "reno":
        return {"growth": 1}
    if controller == "highspeed":
        return {"growth": 8}
    # ns-2's Vegas has a recovery of its own, which is nearest to NewReno's.
    alpha, beta, gamma = match(r"vegas:params=ns2,alpha=(\d+),beta=(\d+),gamma=(\d+),transit=(?:window|flight)", controller)
    if args["agent"] != "Newreno":
        raise Refused(f"ns-2's Vegas has one recovery; write recovery = 'newreno' with {controller}")
    return {"agent": "Vegas", "growth": 1, "alpha": int(alpha), "beta": int(beta), "gamma": int(gamma)}


def queue(text):
    """The arguments of the bottleneck's queue."""
    kind, options = match(r"([\w-]+):(.*)", text)
    if kind == "droptail":
        return {"queue": "DropTail", "limit": int(number(options))}
    if kind not in ("red", "adaptive-red"):
        raise Refused(f"ns-2's script cannot express the queue '{kind}'")
    red = Fields("queue", dict(option.split("=") for option in options.split(",")))
    args = {"queue": "RED", "limit": int(number(red.take("limit"))), "adaptive": int(kind == "adaptive-red")}
    args["min"], args["max"] = number(red.take("min")), number(red.take("max"))
    args["weight"], args["maxp"] = float(red.take("w")), float(red.take("maxp"))
    args["wait"] = int(red.expect("wait", "on", "off") == "on")
    args["marks"] = int(red.expect("ecn", "on", "off") == "on")
    if kind == "red":
        args["gentle"] = int(red.expect("gentle", "on", "off") == "on")
    else:
        # Adaptive RED is always gentle. The target only derives parameters, which the plan gives. ns-2's slope begins at
        # the initial maxp, whatever the plan says.
        args["gentle"] = 1
        red.take("target")
        red.take("packet")
        red.take("slope", "present")
    # In ns-2, packets that find at most one waiting packet pass, whatever the plan says.
    red.take("pass", "0p")
    # Both simulators can mark at any probability below max, or only up to a probability of 0.1.
    args["markp"] = {"p": 0.1, "avg": 0}[red.expect("mark", "p", "avg")]
    red.end()
    return args


def arguments(scenario):
    """The arguments of flows.tcl."""
    top = Fields("scenario", scenario)
    top.expect("stack", "tcp")
    args = {"stop": number(top.take("stop")), "warm": number(top.take("warm-up", "0s"))}

    tcp = Fields("scenario.tcp", top.take("tcp"))
    recovery = tcp.expect("recovery", "reno", "newreno", "sack")
    args["agent"] = {"reno": "Reno", "newreno": "Newreno", "sack": "Sack1"}[recovery]
    args["sink"] = ("TCPSink/Sack1" if recovery == "sack" else "TCPSink") + ("" if tcp.expect("ack-every", 1, 2) == 1 else "/DelAck")
    args["iw"] = int(number(tcp.take("initial-window")))
    args["minrto"] = number(tcp.take("min-rto"))
    args["rto0"] = number(tcp.take("initial-rto"))
    args["delack"] = number(tcp.take("delayed-ack"))
    args["limited"] = int(tcp.expect("limited-transmit", False, True))
    tcp.expect("counting", "acks")
    args["ecn"] = int(tcp.expect("ecn", False, True))
    if args["ecn"] or "ecn-retransmissions" in tcp.table:
        # With ECN, all of ns-2's packets are ECN-capable.
        tcp.expect("ecn-retransmissions", bool(args["ecn"]))
    if "least-window" in tcp.table:
        # ns-2's window falls to one segment.
        tcp.expect("least-window", 1, 2)
    tcp.end()

    network = Fields("scenario.network", top.take("network"))
    network.expect("topology", "dumbbell")
    args["rate"] = number(network.take("link"))
    args["delay"] = number(network.take("delay"))
    args |= queue(network.take("queue"))
    network.end()

    groups = top.take("traffic")
    if len(groups) != 1:
        raise Refused("ns-2's script has one group of traffic")
    group = Fields("scenario.traffic", groups[0])
    group.take("name")
    group.expect("from", "left")
    group.expect("to", "right")
    args |= growth(group.take("controller"), args)
    flows, spread = match(r"flows:(\d+)@(\w+)", group.take("workload"))
    args["flows"], args["spread"] = int(flows), number(spread)
    # ns-2 adds 40 bytes of headers to each segment.
    args["segment"] = group.take("packet") - 40
    access = Fields("access", group.take("access"))
    rate, shared = match(r"(\w+?)(/flows)?", access.take("rate"))
    args["access"] = number(rate) / (int(flows) if shared else 1)
    args["low"], args["high"] = map(number, match(r"([\w.]+?)\.\.([\w.]+)", access.take("delay")))
    access.end()
    group.end()
    top.end()
    return args


NAMES = sorted(plan.stem for plan in HERE.glob("*.toml"))


def measures(args, counts):
    """The measures of a run, as the laboratory defines them."""
    seconds = args["stop"] - args["warm"]
    bps = counts["bytes"] * 8 / seconds
    # ns-2 counts the packets that wait. The laboratory also counts the packet in transmission, which exists while the link is busy.
    queue = counts["waiting_packet_seconds"] / seconds + bps / args["rate"]
    return {
        "throughput_mbps": round(bps / 1e6, 4),
        "drops_percent": round(100 * counts["dropped"] / counts["arrived"], 4),
        "queue_packets": round(queue, 3),
        "timeouts_per_flow": round(counts["timeouts"] / args["flows"], 3),
    }


def words(args, seed):
    """The arguments of the script."""
    shown = {"seed": seed} | {name: f"{value:.10g}" if isinstance(value, float) else value for name, value in args.items()}
    return [str(word) for pair in shown.items() for word in pair]


def run(ns, script, args, seed):
    """One run: its measures and counts."""
    done = subprocess.run([ns, script.name, *words(args, seed)], cwd=script.parent, capture_output=True, text=True)
    line = done.stdout.strip().split("\n")[-1]
    if done.returncode != 0 or "timeouts=" not in line:
        sys.exit(f"ns {script.name} {' '.join(words(args, seed))} failed: {done.stderr.strip() or done.stdout.strip()}")
    counts = {name: float(value) for name, value in (pair.split("=") for pair in line.split())}
    rounded = {name: round(value, 3) if name == "waiting_packet_seconds" else int(value) for name, value in counts.items()}
    return measures(args, counts) | rounded


def version(ns):
    """ns-2's version, and that of its Debian package if it is one."""
    said = subprocess.run([ns, "/dev/stdin"], input="puts [ns-version]; exit 0\n", capture_output=True, text=True).stdout
    found = re.search(r"\d+\.\d+\S*", said)
    package = subprocess.run(["dpkg-query", "--show", "--showformat=${Version}", "ns2"], capture_output=True, text=True) if shutil.which("dpkg-query") else None
    text = f"ns-{found[0]}" if found else "ns-2"
    return f"{text} (Debian package ns2 {package.stdout})" if package and package.returncode == 0 else text


def cpu():
    """The CPU time that ns-2 has used, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def scenario(name, ns, jobs):
    before = cpu()
    plan_file, script = HERE / f"{name}.toml", HERE / "flows.tcl"
    text = plan_file.read_text()
    plan = tomllib.loads(text)
    first = plan.get("seed", 1)
    seeds = range(first, first + plan["seeds"])
    cells = [(key, arguments(fields)) for key, fields in combinations(plan)]
    print(f"{name}: {len(cells)} combinations with {len(seeds)} seeds in ns-2", flush=True)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        started = [(key, args, [pool.submit(run, ns, script, args, seed) for seed in seeds]) for key, args in cells]
        commands, rows = [], []
        for done, (key, args, futures) in enumerate(started, 1):
            runs = [future.result() for future in futures]
            commands.append({"key": key, "command": " ".join(["ns", script.name, *words(args, "SEED")])})
            rows += [key | {"seed": seed} | of for seed, of in zip(seeds, runs)]
            means = ", ".join(f"{name} {sum(of[name] for of in runs) / len(runs):.3f}" for name in measures(args, runs[0]))
            print(f"  {done}/{len(cells)} {', '.join(f'{axis}={value}' for axis, value in key.items())}: {means}", flush=True)
    used = cpu() - before
    result = {
        "simulator": version(ns),
        "cpu_seconds": round(used, 1),
        "plan": text,
        "script": script.read_text(),
        "commands": commands,
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    with open(RESULTS / f"{name}.csv", "w", newline="") as file:
        table = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    print(f"{name}: {result['cpu_seconds']:.0f} s of CPU time; results in bench/results/ns2/", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME", help=f"scenarios (default: {' '.join(NAMES)})")
    parser.add_argument("--ns", default="ns", help="ns-2's program (default: ns)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at the same time")
    args = parser.parse_args()
    if not shutil.which(args.ns):
        sys.exit(MEND)
    for name in args.names:
        if name not in NAMES:
            parser.error(f"'{name}' is not a scenario; write one of {', '.join(NAMES)}")
        try:
            scenario(name, args.ns, args.jobs)
        except Refused as refused:
            sys.exit(f"bench/ns2/{name}.toml: {refused}")


if __name__ == "__main__":
    main()
