#!/usr/bin/env python3
"""Builds Fathom with stacks whose number of probes per timeout can be set with the environment variable PROBES (probes.rs).

Copies this repository and the sources of quinn-proto and noq-proto to target/overload, edits the copies, and builds there. Neither
this repository nor Cargo's copies change. Prints the path of the program.

Usage: stacks.py [--check]    with --check, only edits copies in memory: do the edits fit the versions in Cargo.lock?
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FOLDER = ROOT / "target" / "overload"

MODULE = f'#[path = "{FOLDER}/probes.rs"]\nmod probes;\n'
# The same text in quinn-proto and noq-proto.
TWO = "            // Conventional loss probe\n            _ => 2,\n"
RULE = "            _ => crate::probes::count(2, self.side.is_client(), &self.handshake_cid),\n"
# Each edit: file, text that occurs once, and the text that replaces it.
EDITS = {
    "quinn-proto": [
        ("src/lib.rs", "mod connection;\n", MODULE + "mod connection;\n"),
        ("src/connection/mod.rs", TWO, RULE),
        # The rest is for the rule `padding`.
        ("src/connection/mod.rs", "    handshake_cid: ConnectionId,\n", "    handshake_cid: ConnectionId,\n    padding: Option<SpaceId>,\n"),
        ("src/connection/mod.rs", "            handshake_cid: loc_cid,\n", "            handshake_cid: loc_cid,\n            padding: None,\n"),
        (
            "src/connection/mod.rs",
            "        self.pto_count = self.pto_count.saturating_add(1);\n        self.set_loss_detection_timer(now);\n",
            "        if crate::probes::padding() {\n            self.padding = Some(space);\n        }\n"
            "        self.pto_count = self.pto_count.saturating_add(1);\n        self.set_loss_detection_timer(now);\n",
        ),
        (
            "src/connection/mod.rs",
            "        // If we need to send a probe, make sure we have something to send.\n",
            "        if let Some(padding) = self.send_padding(now, buf) {\n            return Some(padding);\n        }\n\n"
            "        // If we need to send a probe, make sure we have something to send.\n",
        ),
        (
            "src/connection/mod.rs",
            "    fn on_loss_detection_timeout(&mut self, now: Instant) {\n",
            """    fn send_padding(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        // After the probe.
        if SpaceId::iter().any(|space| self.spaces[space].loss_probes > 0) {
            return None;
        }
        let space = self.padding.take()?;
        self.spaces[space].crypto.as_ref()?;
        let size = u64::from(MIN_INITIAL_SIZE);
        if !matches!(self.state, State::Established | State::Handshake(_)) || self.path.anti_amplification_blocked(size) {
            return None;
        }
        buf.reserve(MIN_INITIAL_SIZE.into());
        let (id, capacity) = (self.rem_cids.active(), buf.capacity());
        let mut builder = PacketBuilder::new(now, space, id, buf, capacity, 0, false, self)?;
        builder.pad_to(MIN_INITIAL_SIZE);
        builder.finish(self, now, buf);
        self.stats.udp_tx.on_sent(1, buf.len());
        self.path.total_sent = self.path.total_sent.saturating_add(buf.len() as u64);
        Some(Transmit { destination: self.path.remote, size: buf.len(), ecn: None, segment_size: None, src_ip: self.local_ip })
    }

    fn on_loss_detection_timeout(&mut self, now: Instant) {
""",
        ),
    ],
    "noq-proto": [
        ("src/lib.rs", "pub(crate) mod connection;\n", MODULE + "pub(crate) mod connection;\n"),
        ("src/connection/mod.rs", TWO, RULE),
    ],
}
# For quiche, one more patch of the derived crate (cc/quiche/patch).
QUICHE = f"""One rule for the number of probes per timeout (bench/overload).

--- a/src/lib.rs
+++ b/src/lib.rs
@@ -9604,3 +9604,5 @@
 mod path;
 mod pmtud;
+#[path = "{FOLDER}/probes.rs"]
+mod probes;
 mod rand;
--- a/src/recovery/congestion/recovery.rs
+++ b/src/recovery/congestion/recovery.rs
@@ -853,4 +853,5 @@
 
         epoch.loss_probes =
-            cmp::min(self.pto_count as usize, MAX_PTO_PROBES_COUNT);
+            cmp::min(self.pto_count as usize, MAX_PTO_PROBES_COUNT);
+        epoch.loss_probes = crate::probes::count(epoch.loss_probes as u32, false, trace_id.as_bytes()) as usize;
 
"""


class Refused(Exception):
    """The sources are not those that the edits are for."""


def sources():
    """The folder of each package's sources, by name."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    out = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    return {package["name"]: pathlib.Path(package["manifest_path"]).parent for package in json.loads(out)["packages"]}


def edited(folder, edits):
    """The texts of the files of a crate that the edits change."""
    texts = {}
    for name, old, new in edits:
        text = texts.get(name) or (folder / name).read_text()
        if text.count(old) != 1:
            raise Refused(f"{folder / name} has {text.count(old)} times, instead of once: {old.strip()}")
        texts[name] = text.replace(old, new)
    return texts


def fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def copies():
    """Makes the copies. Returns the folder of the repository's copy, and Cargo's options."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "probes.rs", FOLDER)
    found, options = sources(), []
    for name, edits in EDITS.items():
        folder = FOLDER / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(found[name], folder)
        for file, text in edited(folder, edits).items():
            (folder / file).write_text(text)
        options += ["--config", f'patch.crates-io.{name}.path="{folder}"']
    repository = FOLDER / "fathom"
    fresh(repository)
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    for name in filter(None, files.decode().split("\0")):
        if (ROOT / name).is_file():
            (repository / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, repository / name)
    (repository / "cc" / "quiche" / "patch" / "99-probes.patch").write_text(QUICHE)
    return repository, options


def build():
    repository, options = copies()
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", FOLDER / "target"))
    command = ["cargo", "build", "--release", "--features", "quiche", "-p", "fathom", *options]
    subprocess.run(command, cwd=repository, check=True, env={**os.environ, "CARGO_TARGET_DIR": str(target)})
    program = FOLDER / "fathom-probes"
    # Runs that are in progress keep the old program.
    shutil.copy(target / "release" / "fathom", program.with_suffix(".new"))
    program.with_suffix(".new").replace(program)
    return program


if __name__ == "__main__":
    try:
        if sys.argv[1:] == ["--check"]:
            found = sources()
            for name, edits in EDITS.items():
                edited(found[name], edits)
        elif sys.argv[1:]:
            sys.exit(__doc__)
        else:
            print(build())
    except Refused as why:
        sys.exit(f"stacks.py: {why}")
    except subprocess.CalledProcessError as failed:
        sys.exit(f"stacks.py: {' '.join(failed.cmd[:2])} failed with {failed.returncode}")
