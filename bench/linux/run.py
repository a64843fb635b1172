#!/usr/bin/env python3
"""Runs a scenario of the laboratory with Linux's TCP over links of Linux, and stores the results.

Reads the plan (bench/linux/NAME.toml) and expands its sweep. Each run has three network namespaces of its own: a sender, a router
with the queue, and a receiver. A field that has no translation is refused. Writes bench/results/linux/NAME.json (kernel, plan,
script, settings) and NAME.csv (measures, one run a line). Runs in real time and needs root in its own kernel: `make linux-tcp`
starts it in User-Mode Linux, whose kernel has the queues and the congestion controllers.

Usage: run.py [NAME...] [--parallel N] [--seeds N]
"""
import argparse
import csv
import ctypes
import glob
import json
import os
import pathlib
import platform
import random
import re
import select
import signal
import socket
import subprocess
import sys
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "ns2"))
from run import Fields, Refused, combinations, match, number  # noqa: E402

RESULTS = HERE.parent / "results" / "linux"
NAMES = sorted(plan.stem for plan in HERE.glob("*.toml"))
# The laboratory's controllers and Linux's.
CONTROLLERS = {"reno": "reno", "cubic": "cubic", "vegas:params=linux": "vegas", "highspeed": "highspeed"}
MODULES = "/usr/lib/uml/modules/*/kernel/net/ipv4/tcp_{}.ko"
CLONE_NEWNET = 0x40000000
TCP_CONGESTION = 13
ETHERNET = 14
PORT = 5001
# Seconds between two samples of the queue.
SAMPLE = 0.1
libc = ctypes.CDLL(None, use_errno=True)


def settings(scenario):
    """The links and flows of a scenario."""
    top = Fields("scenario", scenario)
    top.expect("stack", "tcp")
    run = {"stop": number(top.take("stop")), "warm": number(top.take("warm-up"))}
    # Linux's own settings apply.
    Fields("scenario.tcp", top.take("tcp", {})).end()
    network = Fields("scenario.network", top.take("network"))
    network.expect("topology", "dumbbell")
    run["rate"], run["delay"] = number(network.take("link")), number(network.take("delay"))
    (limit,) = match(r"droptail:(\d+)p", network.take("queue"))
    run["limit"] = int(limit)
    network.end()
    run["flows"] = []
    for table in top.take("traffic"):
        group = Fields("scenario.traffic", table)
        name = group.take("name")
        group.expect("from", "left")
        group.expect("to", "right")
        group.expect("packet", 1500)
        controller = CONTROLLERS[group.expect("controller", *CONTROLLERS)]
        count, spread = match(r"flows:(\d+)(?:@(\w+))?", group.take("workload"))
        spread = number(spread) if spread else 0.0
        run["flows"] += [{"group": name, "controller": controller, "start": spread * i / int(count)} for i in range(int(count))]
        group.end()
    top.end()
    return run


def check(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def namespace():
    """A process that keeps a new network namespace open."""
    ready, done = os.pipe()
    pid = os.fork()
    if pid == 0:
        check(libc.unshare(CLONE_NEWNET))
        os.write(done, b"1")
        signal.pause()
    os.read(ready, 1)
    os.close(ready)
    os.close(done)
    return pid


def inside(pid, *command, **options):
    return subprocess.run(["nsenter", "-t", str(pid), "-n", *command], check=True, capture_output=True, text=True, **options).stdout


def enter(pid):
    with open(f"/proc/{pid}/ns/net") as file:
        check(libc.setns(file.fileno(), CLONE_NEWNET))


def link(run):
    """The processes of sender, router and receiver, with the link between them."""
    sender, router, receiver = namespace(), namespace(), namespace()
    inside(sender, "sysctl", "-qw", "net.ipv4.tcp_timestamps=0", "net.ipv4.tcp_no_metrics_save=1")
    inside(receiver, "sysctl", "-qw", "net.ipv4.tcp_timestamps=0")
    inside(router, "sysctl", "-qw", "net.ipv4.ip_forward=1")
    steps = [
        (router, f"ip link add in0 type veth peer name eth0 netns {sender}"),
        (router, f"ip link add out0 type veth peer name eth0 netns {receiver}"),
        (router, "ip addr add 10.0.0.2/30 dev in0"),
        (router, "ip addr add 10.0.1.1/30 dev out0"),
        (router, "ip link set in0 up"),
        (router, "ip link set out0 up"),
        (sender, "ip addr add 10.0.0.1/30 dev eth0"),
        # Without offload, the queue counts packets as on the wire.
        (sender, "ip link set eth0 gso_max_segs 1 up"),
        (sender, "ip route add default via 10.0.0.2"),
        (receiver, "ip addr add 10.0.1.2/30 dev eth0"),
        (receiver, "ip link set eth0 up"),
        (receiver, "ip route add default via 10.0.1.1"),
        # As in the laboratory's netem backend (bench/netsim/src/backend/netem/qdisc.rs): netem's rate sends packets one after
        # another, and its limit includes the packet in transmission.
        (router, f"tc qdisc add dev out0 root handle 1: stab overhead -{ETHERNET} netem delay {run['delay'] * 1e6:.0f}us limit 1000000"),
        (router, f"tc qdisc add dev out0 parent 1:1 handle 10: netem rate {run['rate']:.0f}bit limit {run['limit']}"),
        (router, f"tc qdisc add dev in0 root netem delay {run['delay'] * 1e6:.0f}us limit 1000000"),
    ]
    for pid, command in steps:
        inside(pid, *command.split())
    return sender, router, receiver


def receive(run, ready):
    """Reads everything that arrives."""
    listener = socket.create_server(("10.0.1.2", PORT), backlog=len(run["flows"]))
    os.write(ready, b"1")
    poll, open_sockets = select.poll(), {listener.fileno(): listener}
    poll.register(listener, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd == listener.fileno():
                connection, _ = listener.accept()
                open_sockets[connection.fileno()] = connection
                poll.register(connection, select.POLLIN)
            elif not open_sockets[fd].recv(1 << 16):
                poll.unregister(fd)
                open_sockets.pop(fd).close()


def send(run, begin, seed, report):
    """Starts the flows and keeps their buffers full. Reports the acknowledged bytes of each flow at the end of the warm-up and at the end."""
    jitter = random.Random(seed)
    waiting = sorted(((begin + flow["start"] + jitter.uniform(0, 0.2), i) for i, flow in enumerate(run["flows"])), reverse=True)
    poll, sockets, acked = select.poll(), {}, []
    data = bytes(1 << 16)
    marks = [begin + run["warm"], begin + run["stop"]]
    while marks:
        now = time.monotonic()
        if now >= marks[0]:
            marks.pop(0)
            acked.append([bytes_acked(sockets[i]) if i in sockets else 0 for i in range(len(run["flows"]))])
            continue
        if waiting and now >= waiting[-1][0]:
            _, i = waiting.pop()
            sockets[i] = socket.socket()
            sockets[i].setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, run["flows"][i]["controller"].encode())
            sockets[i].connect(("10.0.1.2", PORT))
            sockets[i].setblocking(False)
            poll.register(sockets[i], select.POLLOUT)
            continue
        until = min([marks[0]] + [at for at, _ in waiting[-1:]])
        for fd, _ in poll.poll(max(0.0, until - now) * 1e3):
            found = next(s for s in sockets.values() if s.fileno() == fd)
            try:
                found.send(data)
            except BlockingIOError:
                pass
    os.write(report, json.dumps(acked).encode())


def bytes_acked(connection):
    """tcpi_bytes_acked of struct tcp_info (linux/tcp.h)."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return int.from_bytes(info[120:128], sys.byteorder)


def process(pid, work, *arguments):
    """Runs `work` in a process in the namespace of another process."""
    child = os.fork()
    if child == 0:
        try:
            enter(pid)
            work(*arguments)
        except BaseException as error:  # noqa: BLE001
            print(f"run.py: {error!r}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return child


def counters(router, sender):
    """Counts of the bottleneck and of the senders since the start."""
    shown = inside(router, "tc", "-s", "qdisc", "show", "dev", "out0")
    queue = shown[shown.index("qdisc netem 10:"):]
    sent, dropped = match_in(r"Sent \d+ bytes (\d+) pkt \(dropped (\d+)", queue)
    link_counts = json.loads(inside(router, "ip", "-s", "-j", "link", "show", "out0"))[0]["stats64"]["tx"]
    names, values = [line.split() for line in inside(sender, "cat", "/proc/net/netstat").splitlines() if line.startswith("TcpExt:")]
    return {
        "sent": int(sent),
        "dropped": int(dropped),
        "bytes": link_counts["bytes"] - ETHERNET * link_counts["packets"],
        "timeouts": int(values[names.index("TCPTimeouts")]),
    }


def match_in(pattern, text):
    return re.search(pattern, text).groups()


def run_once(run, seed):
    """One run: its measures."""
    sender, router, receiver = pids = link(run)
    started = [*pids]
    try:
        ready, tell = os.pipe()
        started.append(process(receiver, receive, run, tell))
        os.read(ready, 1)
        report, write = os.pipe()
        begin = time.monotonic() + 0.2
        sending = process(sender, send, run, begin, seed, write)
        started.append(sending)
        sampler = subprocess.Popen(
            ["nsenter", "-t", str(router), "-n", "stdbuf", "-oL", "tc", "-s", "-batch", "-"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )
        started.append(sampler.pid)
        pause(begin + run["warm"])
        before, queue = counters(router, sender), []
        while time.monotonic() < begin + run["stop"]:
            queue.append(backlog(sampler))
            pause(min(begin + run["stop"], time.monotonic() + SAMPLE))
        after = counters(router, sender)
        _, status = os.waitpid(sending, 0)
        started.remove(sending)
        if status != 0:
            sys.exit("run.py: the sender failed")
        first, last = json.loads(os.read(report, 1 << 16))
    finally:
        for pid in started:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    counts = {name: after[name] - before[name] for name in before}
    seconds = run["stop"] - run["warm"]
    acked = [end - start for start, end in zip(first, last)]
    in_group = [acked[i] for i, flow in enumerate(run["flows"]) if flow["group"] == "flows"]
    return {
        "throughput_mbps": round(counts["bytes"] * 8 / seconds / 1e6, 4),
        "drops_percent": round(100 * counts["dropped"] / (counts["sent"] + counts["dropped"]), 4),
        "queue_packets": round(sum(queue) / len(queue), 3),
        "timeouts_per_flow": round(counts["timeouts"] / len(run["flows"]), 3),
        "share_percent": round(100 * sum(in_group) / sum(acked), 3),
        "samples": len(queue),
    }


def backlog(sampler):
    """Packets in the bottleneck's queue."""
    sampler.stdin.write("qdisc show dev out0\n")
    packets, inner = None, False
    while packets is None:
        line = sampler.stdout.readline()
        if not line:
            sys.exit("run.py: tc ended")
        if line.startswith("qdisc"):
            inner = line.startswith("qdisc netem 10:")
        found = re.search(r"backlog \S+ (\d+)p", line)
        if found and inner:
            packets = int(found[1])
    return packets


def pause(until):
    time.sleep(max(0.0, until - time.monotonic()))


def in_process(run, seed):
    """Starts a run in a process of its own. Returns the process and the end of the pipe with its measures."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, json.dumps(run_once(run, seed)).encode())
        os._exit(0)
    os.close(write)
    return pid, read


def scenario(name, parallel, most_seeds):
    text = (HERE / f"{name}.toml").read_text()
    plan = tomllib.loads(text)
    first = plan.get("seed", 1)
    seeds = range(first, first + min(plan["seeds"], most_seeds))
    cells = [(key, settings(fields)) for key, fields in combinations(plan)]
    jobs = [(key, run, seed) for key, run in cells for seed in seeds]
    print(f"{name}: {len(cells)} combinations with {len(seeds)} seeds in Linux {platform.release()}", file=sys.stderr, flush=True)
    rows, began = [], time.monotonic()
    for i in range(0, len(jobs), parallel):
        running = [(job, *in_process(job[1], job[2])) for job in jobs[i:i + parallel]]
        for (key, _, seed), pid, read in running:
            with os.fdopen(read) as pipe:
                measured = json.loads(pipe.read() or "null")
            os.waitpid(pid, 0)
            if measured is None:
                sys.exit(f"run.py: {name}, {key}, seed {seed} failed")
            rows.append(key | {"seed": seed} | measured)
            print(f"  {len(rows)}/{len(jobs)} {', '.join(f'{axis}={value}' for axis, value in key.items())}, seed {seed}: {measured}", file=sys.stderr, flush=True)
    result = {
        "simulator": f"Linux {platform.release()} (User-Mode Linux)",
        "cpu_seconds": round(time.monotonic() - began, 1),
        "plan": text,
        "script": (HERE / "run.py").read_text(),
        "settings": [{"key": key} | run for key, run in cells],
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    with open(RESULTS / f"{name}.csv", "w", newline="") as file:
        table = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME", help=f"scenarios (default: {' '.join(NAMES)})")
    parser.add_argument("--parallel", type=int, default=3, help="runs at the same time")
    parser.add_argument("--seeds", type=int, default=1000, help="most seeds of a scenario, for a quick look")
    args = parser.parse_args()
    for controller in CONTROLLERS.values():
        for module in glob.glob(MODULES.format(controller)):
            subprocess.run(["insmod", module], check=False, capture_output=True)
    for name in args.names:
        if name not in NAMES:
            parser.error(f"'{name}' is not a scenario; write one of {', '.join(NAMES)}")
        try:
            scenario(name, args.parallel, args.seeds)
        except Refused as refused:
            sys.exit(f"bench/linux/{name}.toml: {refused}")


if __name__ == "__main__":
    main()
