//! Any bytes as the XML of a CIFTI file.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = bdo_data::cifti::parse_axes(bytes);
});
