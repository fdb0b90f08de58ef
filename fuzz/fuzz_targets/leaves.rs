#![no_main]

#[path = "../targets.rs"]
#[expect(dead_code, reason = "each program runs one target")]
mod targets;

libfuzzer_sys::fuzz_target!(init: targets::hook(), |data: &[u8]| targets::leaves(data));
