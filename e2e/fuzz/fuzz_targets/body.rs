//! See `petri_fuzz::body`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| petri_fuzz::body(data));
