#!/bin/sh
# Builds the documentation site into target/site/book: the pages of docs/ and the API documentation of the crates. `make site`
set -eu
site=target/site
rm -rf "$site/src" "$site/book"
mkdir -p "$site/src"
cp docs/site/book.toml "$site/"
cp docs/site/SUMMARY.md "$site/src/"
# The same places as in the repository: relative links lead to the same pages.
cp --parents -t "$site/src" README.md ARCHITECTURE.md CONTRIBUTING.md SECURITY.md CHANGELOG.md LICENSE* docs/*.md docs/papers/*.md docs/figures/* \
  bench/results/figures/* interop/peers/README.md deploy/README.md cc/quiche/patch/README.md
mdbook build "$site"
cp -r target/doc "$site/book/api"
echo "$site/book/index.html"
