#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bdo_fuzz::targets::bids_names(bytes));
