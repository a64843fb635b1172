#!/usr/bin/env python3
"""What `fathom serve` costs beside the least server on the same stack as it comes: same load, taking turns, on loopback.

Prints a table in Markdown: for each body size the median over pairs of runs of the requests per second and of the server's CPU time per
request, ours against theirs. Pairs in which a request failed are left out, and the failures counted. Client and servers share this machine,
and a server that needs less CPU time leaves the client more. See docs/serve-measured.md.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys

from beside import cpu_of, run

SIZES = (("1 kB", 1_000), ("100 kB", 100_000), ("10 MB", 10_000_000))


def start(command: list[str]) -> tuple[subprocess.Popen, str]:
    """A server, and its port."""
    server = subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    line = server.stderr.readline()
    found = re.search(r"https://127\.0\.0\.1:(\d+)/", line)
    if not found:
        server.kill()
        sys.exit(f"{' '.join(command)} does not serve: {line}")
    return server, found.group(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fathom", required=True)
    parser.add_argument("--stock", required=True, help="the stock stack's server: example stock_quinn, stock_noq or stock_quiche")
    parser.add_argument("--stack", default="quinn", choices=("quinn", "noq", "quiche"), help="of both servers")
    parser.add_argument("--controller", default="native:cubic", help="of fathom serve")
    parser.add_argument("-c", "--connections", type=int, default=4)
    parser.add_argument("-m", "--streams", type=int, default=4)
    parser.add_argument("-d", "--seconds", type=int, default=4)
    parser.add_argument("--runs", type=int, default=7)
    args = parser.parse_args()

    ours = [args.fathom, "serve", "--listen", "127.0.0.1:0", "--stack", args.stack, "--controller", args.controller]
    servers = []
    try:
        for command in (ours, [args.stock]):
            servers.append(start(command))
        print(f"{args.stack}, `fathom serve` with {args.controller} against stock with CUBIC, -c {args.connections} ", end="")
        print(f"-m {args.streams}, {args.runs} pairs of {args.seconds} s, {os.cpu_count()} cores\n")
        print("| body | serve, requests/s | stock, requests/s | ratio (least to most) | serve, CPU-µs per request | stock | ratio ", end="")
        print("| failed, serve and stock |\n|---|---|---|---|---|---|---|---|", flush=True)
        for name, size in SIZES:
            rates, costs, failed = ([], []), ([], []), [0, 0]
            for turn in range(args.runs):
                pair = [None, None]
                # Who goes first changes, so that what grows or fades over the minutes falls on both.
                for which in ((0, 1), (1, 0))[turn % 2]:
                    server, port = servers[which]
                    command = [args.fathom, "load", f"https://localhost:{port}/bytes/{size}", "--insecure", "--timestamps", "off"]
                    command += ["-c", str(args.connections), "-m", str(args.streams), "-d", f"{args.seconds}s", "--json", "-"]
                    before = cpu_of(server.pid)
                    text, _ = run(command, args.seconds + 15)
                    if text is None:
                        sys.exit(f"{' '.join(command)} did not end")
                    requests = json.loads(text)["requests"]
                    failed[which] += requests["failed"]
                    whole = max(requests["completed"], 1)
                    pair[which] = (whole / args.seconds, (cpu_of(server.pid) - before) * 1e6 / whole, requests["failed"])
                # Where a request has failed, the rest of the run waited for its timeout.
                if any(run[2] for run in pair):
                    continue
                for which, (rate, cost, _) in enumerate(pair):
                    rates[which].append(rate)
                    costs[which].append(cost)
            if not rates[0]:
                print(f"| {name} | none without failed requests | | | | | | {failed[0]} and {failed[1]} |", flush=True)
                continue
            middle = statistics.median

            def ratio(of: tuple[list[float], list[float]]) -> str:
                each = [mine / theirs for mine, theirs in zip(*of)]
                return f"{middle(each):.2f} ({min(each):.2f} to {max(each):.2f})"

            print(f"| {name} | {middle(rates[0]):.0f} | {middle(rates[1]):.0f} | {ratio(rates)} ", end="")
            print(f"| {middle(costs[0]):.0f} | {middle(costs[1]):.0f} | {ratio(costs)} | {failed[0]} and {failed[1]} |", flush=True)
    finally:
        for server, _ in servers:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
