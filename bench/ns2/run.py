#!/usr/bin/env python3
"""Runs a scenario of the laboratory in ns-2 and stores the results.

Reads the plan (bench/ns2/NAME.toml), expands its sweep, and runs bench/ns2/flows.tcl or web.tcl with ns-2 for each
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
import statistics
import subprocess
import sys
import tempfile

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
    if "min" in red.table:
        args["min"], args["max"], args["weight"] = number(red.take("min")), number(red.take("max")), float(red.take("w"))
        # The target only derives parameters, which the plan gives.
        red.take("target", "")
        red.take("packet", "")
    else:
        # Both simulators derive thresholds and weight from the target and the packet size.
        args["target"], args["mean"] = number(red.take("target")), int(red.take("packet").removesuffix("B"))
    args["maxp"] = float(red.take("maxp", "0.1"))
    args["wait"] = int(red.expect("wait", "on", "off") == "on")
    args["marks"] = int(red.expect("ecn", "on", "off") == "on")
    if kind == "red":
        args["gentle"] = int(red.expect("gentle", "on", "off") == "on")
    else:
        # Adaptive RED is always gentle. ns-2's slope begins at the initial maxp, whatever the plan says.
        args["gentle"] = 1
        red.take("slope", "present")
    # In ns-2, packets that find at most one waiting packet pass, whatever the plan says.
    red.take("pass", "0p")
    # Both simulators can mark at any probability below max, or only up to a probability of 0.1.
    args["markp"] = {"p": 0.1, "avg": 0}[red.expect("mark", "p", "avg")]
    red.end()
    return args


def tcp(table, args):
    """The arguments of TCP that all scripts have."""
    args["iw"] = int(number(table.take("initial-window")))
    args["minrto"] = number(table.take("min-rto"))
    args["rto0"] = number(table.take("initial-rto"))
    args["delack"] = number(table.take("delayed-ack"))
    table.expect("counting", "acks")
    args["ecn"] = int(table.expect("ecn", False, True))
    if args["ecn"] or "ecn-retransmissions" in table.table:
        # With ECN, all of ns-2's packets are ECN-capable.
        table.expect("ecn-retransmissions", bool(args["ecn"]))
    if "least-window" in table.table:
        # ns-2's window may fall below one segment.
        table.expect("least-window", 0, 1, 2)


def arguments(scenario):
    """The script and its arguments."""
    top = Fields("scenario", scenario)
    top.expect("stack", "tcp")
    if any(group["workload"].startswith("web:") for group in scenario["traffic"]):
        return "web.tcl", web(top)
    return "flows.tcl", flows(top)


def flows(top):
    """The arguments of flows.tcl."""
    args = {"stop": number(top.take("stop")), "warm": number(top.take("warm-up", "0s"))}

    table = Fields("scenario.tcp", top.take("tcp"))
    recovery = table.expect("recovery", "reno", "newreno", "sack")
    args["agent"] = {"reno": "Reno", "newreno": "Newreno", "sack": "Sack1"}[recovery]
    args["sink"] = ("TCPSink/Sack1" if recovery == "sack" else "TCPSink") + ("" if table.expect("ack-every", 1, 2) == 1 else "/DelAck")
    args["limited"] = int(table.expect("limited-transmit", False, True))
    tcp(table, args)
    table.end()

    network = Fields("scenario.network", top.take("network"))
    network.expect("topology", "dumbbell")
    args["rate"] = number(network.take("link"))
    args["delay"] = number(network.take("delay"))
    args |= queue(network.take("queue"))
    network.end()

    # Starved flows are counted on the link whose shares the laboratory keeps.
    keep = Fields("scenario.keep", top.take("keep", {}))
    args["starved"] = int(keep.take("shares", "") == "left-right")
    keep.end()

    groups = top.take("traffic")
    if len(groups) != 1:
        raise Refused("ns-2's script has one group of traffic")
    group = Fields("scenario.traffic", groups[0])
    group.take("name")
    group.expect("from", "left")
    group.expect("to", "right")
    args |= growth(group.take("controller"), args)
    count, spread = match(r"flows:(\d+)@(\w+)", group.take("workload"))
    args["flows"], args["spread"] = int(count), number(spread)
    args["window"] = int(number(group.take("max-window", "10000p")))
    # ns-2 adds 40 bytes of headers to each segment.
    args["segment"] = group.take("packet") - 40
    access = Fields("access", group.take("access"))
    rate, shared = match(r"(\w+?)(/flows)?", access.take("rate"))
    args["access"] = number(rate) / (int(count) if shared else 1)
    args["low"], args["high"] = map(number, match(r"([\w.]+?)\.\.([\w.]+)", access.take("delay")))
    access.end()
    group.end()
    top.end()
    return args


def web(top):
    """The arguments of web.tcl."""
    (responses,) = match(r"(\d+) responses", top.take("stop"))
    args = {"responses": int(responses)}

    table = Fields("scenario.tcp", top.take("tcp"))
    args["agent"] = {"reno": "Reno", "sack": "Sack"}[table.expect("recovery", "reno", "sack")]
    # ns-2's two-way TCP acknowledges every second segment and has no limited transmit. Its delayed ACKs leave at multiples
    # of the longest delay.
    table.expect("limited-transmit", False)
    table.expect("ack-ticks", True)
    args["nagle"] = int(table.expect("nagle", False, True))
    tcp(table, args)
    table.end()

    network = Fields("scenario.network", top.take("network"))
    network.expect("topology", "parking-lot")
    args["link"] = number(network.take("link"))
    args |= queue(network.take("queue"))
    network.end()

    groups = top.take("traffic")
    for group, ends in zip(groups, [("r0", "r5"), ("r5", "r0")], strict=True):
        group = Fields("scenario.traffic", group)
        group.take("name")
        group.expect("from", ends[0])
        group.expect("to", ends[1])
        group.expect("controller", "reno")
        args["rate"] = float(match(r"web:([\d.]+)/s", group.take("workload"))[0])
        args["window"] = int(number(group.take("max-window")))
        group.take("counted", ends[0] == "r0")
        group.end()
    # The laboratory's packets have 1420 bytes, of which 40 are headers.
    args["segment"] = 1380
    top.end()
    return args


NAMES = sorted(plan.stem for plan in HERE.glob("*.toml"))


# Times of responses whose cumulative fraction is stored, in milliseconds: the range of the Sync-TCP paper's figures.
TIMES = range(100, 1500, 100)


def measures(args, counts):
    """The measures of a run, as the laboratory defines them."""
    seconds = counts["seconds"] if "seconds" in counts else args["stop"] - args["warm"]
    bps = counts["bytes"] * 8 / seconds
    # ns-2 counts the packets that wait. The laboratory also counts the packet in transmission, which exists while the link is busy.
    queue = counts["waiting_packet_seconds"] / seconds + bps / args.get("link", args["rate"])
    result = {
        "throughput_mbps": round(bps / 1e6, 4),
        "drops_percent": round(100 * counts["dropped"] / counts["arrived"], 4),
        "queue_packets": round(queue, 3),
    }
    if "timeouts" in counts:
        result["timeouts_per_flow"] = round(counts["timeouts"] / args["flows"], 3)
    if args.get("starved"):
        for window in (1, 10):
            result[f"starved_{window}s_percent"] = round(100 * counts[f"starved_{window}"] / counts[f"shares_{window}"], 3)
    return result


def responses(file):
    """The measures of the responses that PackMime wrote: time, sizes of request and response, response time in ms."""
    rows = [(int(fields[2]), float(fields[3])) for fields in map(str.split, file.read_text().splitlines()) if len(fields) >= 4]
    times = sorted(time for _, time in rows)
    return {
        "median_ms": round(statistics.median(times), 1),
        "mean_ms": round(statistics.fmean(times), 1),
        "size_bytes": round(statistics.fmean(size for size, _ in rows), 1),
        **{f"within_{limit}ms": round(sum(time <= limit for time in times) / len(times), 4) for limit in TIMES},
    }


def words(args, seed):
    """The arguments of the script."""
    shown = {"seed": seed} | {name: f"{value:.10g}" if isinstance(value, float) else value for name, value in args.items()}
    return [str(word) for pair in shown.items() for word in pair]


def run(ns, script, args, seed):
    """One run: its measures and counts."""
    with tempfile.TemporaryDirectory() as folder:
        times = pathlib.Path(folder) / "times"
        command = [ns, script, *words(args, seed), *(["times", str(times)] if script == "web.tcl" else [])]
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
        line = done.stdout.strip().split("\n")[-1]
        if done.returncode != 0 or "arrived=" not in line:
            sys.exit(f"{' '.join(command)} failed: {done.stderr.strip() or done.stdout.strip()}")
        counts = {name: float(value) for name, value in (pair.split("=") for pair in line.split())}
        answered = responses(times) if script == "web.tcl" else {}
    rounded = {name: round(value, 3) if name in ("waiting_packet_seconds", "seconds") else int(value) for name, value in counts.items()}
    return measures(args, counts) | answered | rounded


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
    plan_file = HERE / f"{name}.toml"
    text = plan_file.read_text()
    plan = tomllib.loads(text)
    first = plan.get("seed", 1)
    seeds = range(first, first + plan["seeds"])
    cells = [(key, *arguments(fields)) for key, fields in combinations(plan)]
    (script,) = {script for _, script, _ in cells}
    print(f"{name}: {len(cells)} combinations with {len(seeds)} seeds in ns-2", flush=True)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        # Some combinations differ in options that only the laboratory has.
        runs = {}
        for _, _, args in cells:
            for seed in seeds:
                words_of = tuple(words(args, seed))
                if words_of not in runs:
                    runs[words_of] = pool.submit(run, ns, script, args, seed)
        started = [(key, args, [runs[tuple(words(args, seed))] for seed in seeds]) for key, _, args in cells]
        commands, rows = [], []
        for done, (key, args, futures) in enumerate(started, 1):
            measured = [future.result() for future in futures]
            commands.append({"key": key, "command": " ".join(["ns", script, *words(args, "SEED")])})
            rows += [key | {"seed": seed} | of for seed, of in zip(seeds, measured)]
            means = ", ".join(f"{name} {sum(of[name] for of in measured) / len(measured):.3f}" for name in measures(args, measured[0]))
            print(f"  {done}/{len(cells)} {', '.join(f'{axis}={value}' for axis, value in key.items())}: {means}", flush=True)
    used = cpu() - before
    result = {
        "simulator": version(ns),
        "cpu_seconds": round(used, 1),
        "plan": text,
        "script": (HERE / "common.tcl").read_text() + (HERE / script).read_text(),
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
