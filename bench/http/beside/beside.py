#!/usr/bin/env python3
"""Requests per second of fathom load beside h2load, against one server on loopback: same load, same server, taking turns.

Prints a table in Markdown: for each body size and client the median of several runs, with the CPU time that client and server took. Both
run on this machine, so they share its cores: what one takes the other has not. See docs/load.md.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

TICK = os.sysconf("SC_CLK_TCK")
SIZES = (("1 kB", 1_000), ("100 kB", 100_000))


def cpu_of(pid: int) -> float:
    """CPU seconds of a process so far (proc(5): utime and stime)."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def busy() -> tuple[float, float]:
    """CPU seconds that all processes have used so far, and those that passed on all cores."""
    with open("/proc/stat", encoding="ascii") as stat:
        times = [int(field) for field in stat.readline().split()[1:9]]
    return (sum(times) - times[3] - times[4]) / TICK, sum(times) / TICK


def run(command: list[str], patience: float) -> tuple[str | None, float]:
    """Its standard output, and the CPU seconds that it took; no output where it did not end."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL)
        until = time.monotonic() + patience
        while True:
            ended, status, usage = os.wait4(child.pid, os.WNOHANG)
            if ended:
                break
            if time.monotonic() > until:
                child.kill()
                os.wait4(child.pid, 0)
                child.returncode = -9
                return None, 0.0
            time.sleep(0.01)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        text = out.read().decode()
        if child.returncode != 0:
            sys.exit(f"{' '.join(command)} failed: {text}{err.read().decode()}")
    return text, usage.ru_utime + usage.ru_stime


def fathom(args: argparse.Namespace, url: str) -> tuple[list[str], object]:
    command = [args.fathom, "load", url, "--insecure", "--stack", args.stack, "--timestamps", "off", "--json", "-"]
    command += ["-c", str(args.connections), "-m", str(args.streams), "-d", f"{args.seconds}s"]

    def read(text: str) -> tuple[int, int]:
        found = json.loads(text)["requests"]
        return found["completed"], found["failed"] + found["unfinished"]

    return command, read


def h2load(args: argparse.Namespace, url: str) -> tuple[list[str], object]:
    command = [args.h2load, "--alpn-list=h3", "-c", str(args.connections), "-m", str(args.streams)]
    command += ["-t", str(args.threads), "-D", str(args.seconds), url]

    def read(text: str) -> tuple[int, int]:
        if "Application protocol: h3" not in text:
            sys.exit(f"h2load did not speak HTTP/3:\n{text}")
        counts = re.search(r"(\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout", text)
        whole, *others = (int(count) for count in counts.groups())
        return whole, sum(others)

    return command, read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fathom", required=True)
    parser.add_argument("--h2load", help="with HTTP/3, as h2load.sh builds it; without it, fathom load alone")
    parser.add_argument("--stack", default="quinn", choices=("quinn", "noq"), help="of server and fathom load")
    parser.add_argument("--controller", default="native:cubic", help="of the server")
    parser.add_argument("-c", "--connections", type=int, default=10)
    parser.add_argument("-m", "--streams", type=int, default=10)
    parser.add_argument("-t", "--threads", type=int, default=os.cpu_count(), help="of h2load; fathom load uses every core")
    parser.add_argument("-d", "--seconds", type=int, default=8)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()

    server = subprocess.Popen(
        [args.fathom, "serve", "--listen", "127.0.0.1:0", "--stack", args.stack, "--controller", args.controller],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        port = re.search(r"https://127\.0\.0\.1:(\d+)/", server.stderr.readline()).group(1)
        clients = {"`fathom load`": fathom} | ({"`h2load`": h2load} if args.h2load else {})
        print(f"{args.stack} with {args.controller}, -c {args.connections} -m {args.streams}, ", end="")
        print(f"{args.runs} runs of {args.seconds} s each, {os.cpu_count()} cores\n")
        print("| body | client | requests/s (least to most) | failed | client, CPU-µs per request | server, CPU-µs per request | other work |")
        print("|---|---|---|---|---|---|---|")
        for name, size in SIZES:
            found = {client: [] for client in clients}
            # Taking turns, so that other work on the machine falls on both.
            for _ in range(args.runs):
                for client, of in clients.items():
                    command, read = of(args, f"https://localhost:{port}/bytes/{size}")
                    server_before, (all_before, there_before), began = cpu_of(server.pid), busy(), time.monotonic()
                    text, client_cpu = run(command, args.seconds + 15)
                    if text is None:
                        print(f"warning: {client} did not end; the run is left out", file=sys.stderr)
                        continue
                    server_cpu, (all_cpu, there) = cpu_of(server.pid) - server_before, busy()
                    took = time.monotonic() - began
                    others = max(all_cpu - all_before - server_cpu - client_cpu, 0) / (there - there_before)
                    whole, failed = read(text)
                    # h2load begins to count when it connects, fathom load after a first connection: both measure for so long.
                    if took > args.seconds + 3:
                        print(f"warning: {client} took {took:.1f} s", file=sys.stderr)
                    per = 1e6 / max(whole, 1)
                    found[client].append((whole / args.seconds, failed, client_cpu * per, server_cpu * per, others))
            for client, runs in found.items():
                if not runs:
                    continue
                rates, failed, of_client, of_server, others = zip(*runs)
                middle = statistics.median
                print(f"| {name} | {client} | {middle(rates):.0f} ({min(rates):.0f} to {max(rates):.0f}) | {sum(failed)} ", end="")
                print(f"| {middle(of_client):.0f} | {middle(of_server):.0f} | {middle(others):.0%} of the machine |", flush=True)
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
