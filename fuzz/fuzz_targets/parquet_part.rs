//! A closed part from a stranger.
#![no_main]

mod damaged;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| damaged::read(true, bytes));
