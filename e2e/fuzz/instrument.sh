#!/bin/sh
# RUSTC_WORKSPACE_WRAPPER of `cargo api-fuzz`: compiles this workspace's crates so that libFuzzer sees which branches and
# comparisons an input reaches, optimised and with all assertions; dependencies stay as every other build has them.
# These are what cargo-fuzz sets, and stable; only its sanitizers need a nightly compiler, and there is no unsafe code here.
exec "$@" -Copt-level=2 -Cdebug-assertions -Coverflow-checks \
  -Cpasses=sancov-module \
  -Cllvm-args=-sanitizer-coverage-level=4 \
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
  -Cllvm-args=-sanitizer-coverage-pc-table \
  -Cllvm-args=-sanitizer-coverage-trace-compares \
  -Cllvm-args=-simplifycfg-branch-fold-threshold=0
