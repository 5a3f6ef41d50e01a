//! See `petri_fuzz::token`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| petri_fuzz::token(data));
