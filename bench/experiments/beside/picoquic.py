#!/usr/bin/env python3
"""What a packet of a bulk transfer costs in Fathom's virtual time, beside picoquic's own network simulator (pico_sim).

Both simulate 100 MB over 100 Mbps with an RTT of 40 ms and 40 ms of buffer under CUBIC, TLS included, both ends on one thread. The runs take
turns; medians of CPU time are compared. picoquic's datagrams are counted once, from its qlog.

Usage: picoquic.py --picoquic FOLDER [--fathom target/release/fathom] [--runs 7] [--stacks quinn,noq,quiche]
FOLDER has picoquic's sources, built into FOLDER/build with CMAKE_BUILD_TYPE=Release (private-octopus/picoquic; it wants h2o/picotls).
"""
import argparse
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile

SPEC = """main_start_time: 0
background_start_time: 0
main_scenario_text: =b1:*1:397:100000000;
main_cc_algo: cubic
nb_connections: 1
main_target_time: 30000000
data_rate_in_gbps: 0.1
latency: 20000
jitter: 0
queue_delay_max: 40000
"""
COMPARE = "compare -v --rate 100Mbps --rtt 40ms --queue droptail:500kB --workload bulk:1x100MB --controllers cubic --seeds 1 --stack"


def run(command):
    """Output and CPU seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed: {done.stdout[-500:]}")
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--picoquic", required=True, type=pathlib.Path, metavar="FOLDER")
    options.add_argument("--fathom", default="target/release/fathom")
    options.add_argument("--runs", type=int, default=7)
    options.add_argument("--stacks", default="quinn,noq,quiche")
    args = options.parse_args()
    simulator = args.picoquic / "build" / "pico_sim"
    if not simulator.is_file():
        sys.exit(f"{simulator} is not there; build picoquic first (see --help)")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        plain, logged, logs = folder / "plain.txt", folder / "logged.txt", folder / "qlog"
        logs.mkdir()
        plain.write_text(SPEC)
        logged.write_text(SPEC + f"qlog_dir: {logs}\n")
        pico = [simulator, "-S", args.picoquic]
        run(pico + [logged])
        packets = sum(log.read_text(errors="replace").count('"datagram_sent"') for log in logs.glob("*.qlog"))
        runs = {name: [] for name in ("picoquic", *args.stacks.split(","))}
        for _ in range(args.runs):
            for name, of in runs.items():
                out, cpu = run(pico + [plain] if name == "picoquic" else [args.fathom, *COMPARE.split(), name])
                of.append((cpu, packets if name == "picoquic" else int(re.search(r"(\d+) packets \(", out)[1])))
    transfers = {name: statistics.median(cpu for cpu, _ in of) for name, of in runs.items()}
    rates = {name: statistics.median(sent / cpu for cpu, sent in of) for name, of in runs.items()}
    print("| stack | packets | packets per CPU second | of picoquic's | CPU s per transfer (least to most) | of picoquic's |\n|---|--:|--:|--:|--:|--:|")
    for name, of in runs.items():
        cpu = transfers[name]
        print(f"| {name} | {of[0][1]:,} | {rates[name]:,.0f} | {rates[name] / rates['picoquic']:.2f} ", end="")
        print(f"| {cpu:.2f} ({min(of)[0]:.2f} to {max(of)[0]:.2f}) | {cpu / transfers['picoquic']:.2f} |")


if __name__ == "__main__":
    main()
