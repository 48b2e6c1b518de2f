//! Every parser of kernel files and answers.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| feedline_collectors::foreign::feed(bytes));
