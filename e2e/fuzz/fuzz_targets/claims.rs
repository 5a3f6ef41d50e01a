//! See `petri_fuzz::claims`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| petri_fuzz::claims(data));
