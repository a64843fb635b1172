#!/usr/bin/env python3
"""One flow of `fathom serve` beside one of another project's server, both through a bottleneck of the kernel, held against `fathom judge`.

Servers are in one network namespace, clients (`fathom load`, for both) in another; a veth pair joins them, and the kernel's token bucket
(tbf) on the servers' end is the bottleneck: 20 Mbps, drop-tail of as many bytes as 70 packets of the judge's. The round trip of 40 ms and
jitter of 1 ms are two relays (`fathom link`), one before each client, which limit nothing. What passes the bottleneck is counted behind
it, by the server's port, from the end of the warm-up to the end: times are those of 5.2.1/one-to-one, scaled.

quic-go has one controller, which its sources call cubicSender and start with `true, // use Reno`: Reno that keeps 0.7 of its window at a
loss, where RFC 9002 keeps half. The judge's share beside `reno` is therefore corrected: at the same losses its window is larger by what RFC
9438 section 4.3 has for AIMD. ngtcp2 0.12.1 runs Reno here, since its CUBIC is none: it multiplies its target by the seconds since the last
loss (`cwnd_thres` in lib/ngtcp2_cc.c). `fathom:cubic` is the control: our own server in the other's place.

Bound, set before the first run: the mean share is within BOUND points of the judge's in virtual time, or within their two 95 % intervals.

Usage: foreign.py [--fathom target/release/fathom] [--peers LIST] [--controllers cubic,reno,vegas] [--runs 5] [--buffer 70]
As root, on Linux with veth and tbf; peers are those of interop/peers, installed (their `install`). Prints a table in Markdown; exits with 1
where the bound is missed. A run takes a minute.
"""
import argparse
import contextlib
import json
import math
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]


def aimd_window(kept):
    """Mean window of an AIMD flow that grows as Reno and keeps this part at a loss, but for what depends on losses (RFC 9438 section 4.3)."""
    return math.sqrt((1 + kept) / (2 * (1 - kept)))


# The judge's controller for each, and by how much the peer's window is larger.
RIVALS = {"fathom:cubic": ("cubic", 1), "quic-go": ("reno", aimd_window(0.7) / aimd_window(0.5)), "ngtcp2:reno": ("reno", 1)}
RATE_MBPS = 20
# The judge's packets on the wire (Sync-TCP section 4.4).
PACKET_BYTES = 1420
STOP_SECONDS, WARM_UP_SECONDS = 100, 30
SERVERS, CLIENTS = "10.99.0.1", "10.99.0.2"
OURS, THEIRS = 4433, 4434
BODY_BYTES = 1 << 30
BOUND = 10.0
JUDGE_SEEDS = 10
# Two-sided 95 % quantiles of Student's t by degrees of freedom.
STUDENT = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}


def call(*words):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: {done.stdout.strip()}")
    return done.stdout


class Namespace:
    """A network namespace without a name: the kernel removes it with its last process."""

    def __init__(self, stack):
        self.holder = stack.enter_context(process(["unshare", "--net", "sleep", "infinity"]))
        own = os.readlink("/proc/self/ns/net")
        for _ in range(100):
            if os.readlink(f"/proc/{self.holder.pid}/ns/net") != own:
                break
            time.sleep(0.02)
        else:
            sys.exit("no network namespace: run as root")
        self.call("ip", "link", "set", "lo", "up")

    def inside(self, *words):
        return ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net", *map(str, words)]

    def call(self, *words):
        return call(*self.inside(*words))


@contextlib.contextmanager
def process(words, **options):
    """A process that is ended with the block."""
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    child = subprocess.Popen([str(word) for word in words], **{**quiet, **options})
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def network(stack, buffer_packets):
    servers, clients = Namespace(stack), Namespace(stack)
    servers.call("ip", "link", "add", "s", "type", "veth", "peer", "name", "c", "netns", clients.holder.pid)
    for namespace, device, address in [(servers, "s", SERVERS), (clients, "c", CLIENTS)]:
        # One datagram is one packet: no offloading.
        namespace.call("ip", "link", "set", device, "gso_max_segs", 1, "gro_max_size", 1500)
        namespace.call("ip", "address", "add", f"{address}/24", "dev", device)
        namespace.call("ip", "link", "set", device, "up")
    limit = buffer_packets * PACKET_BYTES
    servers.call("tc", "qdisc", "add", "dev", "s", "root", "tbf", "rate", f"{RATE_MBPS}mbit", "burst", 3000, "limit", limit)
    return servers, clients


def count(packets, until, counted):
    """Bytes of IP packets by the port that they come from."""
    while (left := until - time.monotonic()) > 0:
        packets.settimeout(left)
        try:
            packet, address = packets.recvfrom(65536)
        except TimeoutError:
            return
        # IPv4 without options, UDP, coming in.
        if address[2] != socket.PACKET_OUTGOING and len(packet) >= 28 and packet[0] == 0x45 and packet[9] == 17:
            port = int.from_bytes(packet[20:22], "big")
            counted[port] = counted.get(port, 0) + len(packet)


def packet_socket(namespace):
    """A socket that sees what comes through the bottleneck. A socket stays in the namespace that it was made in: a thread goes there."""
    found = []

    def make():
        import ctypes

        target = os.open(f"/proc/{namespace.holder.pid}/ns/net", os.O_RDONLY)
        if ctypes.CDLL(None, use_errno=True).setns(target, 0) != 0:
            sys.exit(f"setns: {os.strerror(ctypes.get_errno())}")
        os.close(target)
        packets = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
        packets.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        packets.bind(("c", 0x0800))
        found.append(packets)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    return found[0]


def one_run(args, peer, controller, site):
    """Our share in percent, and what both used of the link."""
    with contextlib.ExitStack() as stack:
        servers, clients = network(stack, args.buffer)

        def serve(port, controller):
            command = [args.fathom, "serve", "--listen", f"{SERVERS}:{port}", "--controller", controller, "--stack", args.stack]
            stack.enter_context(process(servers.inside(*command)))

        serve(OURS, controller)
        peer, _, theirs_runs = peer.partition(":")
        theirs = {"ROLE": "server", "TESTCASE": "http3", "IP": SERVERS, "PORT": str(THEIRS), "CERTS": str(site), "WWW": str(site)}
        if theirs_runs:
            theirs["FATHOM_PEER_CONTROLLER"] = theirs_runs
        if peer == "fathom":
            serve(THEIRS, theirs_runs)
        else:
            stack.enter_context(process(servers.inside(ROOT / "interop/peers" / peer / "run"), env={**os.environ, **theirs}))
        time.sleep(1)
        packets = packet_socket(clients)
        stop, warm_up = STOP_SECONDS * args.scale, WARM_UP_SECONDS * args.scale
        for port in (OURS, THEIRS):
            link = [args.fathom, "link", "--listen", f"127.0.0.1:{port}", "--to", f"{SERVERS}:{port}"]
            link += ["--rate", "1Gbps", "--rtt", "40ms", "--jitter", "1ms"]
            stack.enter_context(process(clients.inside(*link)))
        time.sleep(0.5)
        bytes_path = f"bytes/{BODY_BYTES}"
        for port, path in [(OURS, bytes_path), (THEIRS, bytes_path if peer == "fathom" else "body")]:
            load = [args.fathom, "load", f"https://localhost:{port}/{path}", "--connect-to", f"127.0.0.1:{port}", "--insecure"]
            load += ["-c", 1, "-m", 1, "-d", f"{stop + 5}s"]
            stack.enter_context(process(clients.inside(*load)))
        start = time.monotonic()
        time.sleep(warm_up)
        # What came until now is not counted.
        packets.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                packets.recv(1)
        counted = {}
        count(packets, start + stop, counted)
        packets.close()
    ours, theirs = counted.get(OURS, 0), counted.get(THEIRS, 0)
    if not ours or not theirs:
        sys.exit(f"{controller} beside {peer}: a flow carried nothing ({counted}); is the peer installed?")
    return 100 * ours / (ours + theirs), 100 * 8 * (ours + theirs) / (stop - warm_up) / (RATE_MBPS * 1e6)


def interval(values):
    return statistics.mean(values), STUDENT[min(len(values) - 1, 9)] * statistics.stdev(values) / math.sqrt(len(values))


def judged(args, controller, rival, folder):
    """The share that `fathom judge` finds in virtual time: mean and half its 95 % interval."""
    file = folder / "judged.json"
    command = [args.fathom, "judge", controller, "--against", rival, "--stack", args.stack, "--only", "5.2.1/one-to-one", "--scale", args.scale]
    command += ["--seeds", JUDGE_SEEDS, "--results", folder / "results", "--json", file]
    subprocess.run([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    checks = json.loads(file.read_text())["criteria"][0]["tests"][0]["checks"]
    value = next(check["value"] for check in checks if check["at"]["buffer"] == f"{args.buffer}p")
    return value["mean"], (value["high"] - value["low"]) / 2


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--fathom", default=ROOT / "target/release/fathom", type=pathlib.Path)
    options.add_argument("--peers", default=",".join(RIVALS))
    options.add_argument("--controllers", default="cubic,reno,vegas")
    options.add_argument("--stack", default="quinn")
    options.add_argument("--runs", type=int, default=5)
    options.add_argument("--buffer", type=int, default=70, choices=[70, 280], help="packets; those of the judge's test")
    options.add_argument("--scale", type=float, default=0.6)
    args = options.parse_args()
    args.fathom = args.fathom.resolve()
    if args.runs < 2:
        sys.exit("--runs: an interval needs two at least")
    unknown = set(args.peers.split(",")) - set(RIVALS)
    if unknown:
        sys.exit(f"--peers: {', '.join(unknown)} is none of {', '.join(RIVALS)}")
    missed = 0
    print("| controller | beside | share of the link | judged in virtual time | apart | link used | runs |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        site = pathlib.Path(name)
        call("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 2, "-subj", "/CN=localhost",
             "-keyout", site / "priv.key", "-out", site / "cert.pem")
        with open(site / "body", "wb") as body:
            body.truncate(BODY_BYTES)
        for peer in args.peers.split(","):
            for controller in args.controllers.split(","):
                runs = [one_run(args, peer, controller, site) for _ in range(args.runs)]
                shares = [share for share, _ in runs]
                rival, weight = RIVALS[peer]
                (mean, half), (uncorrected, virtual_half) = interval(shares), judged(args, controller, rival, site)
                virtual = 100 * uncorrected / (uncorrected + weight * (100 - uncorrected))
                within = abs(mean - virtual) <= max(BOUND, half + virtual_half)
                missed += not within
                corrected = f", corrected {virtual:.1f} %" if weight != 1 else ""
                print(f"| {controller} | {peer} | {mean:.1f} ± {half:.1f} % | {uncorrected:.1f} ± {virtual_half:.1f} % beside {rival}{corrected} "
                      f"| {mean - virtual:+.1f}{'' if within else ' MISSED'} | {statistics.mean(used for _, used in runs):.0f} % "
                      f"| {' '.join(f'{share:.0f}' for share in shares)} |", flush=True)
    print(f"\n{missed} beyond the bound")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
