//! Decodes each of the fuzzer's tapes of choices into a program, and checks properties that must hold for every
//! program.

#![no_main]

use funcify_conformance::arbitrary::{Choices, Sample, TestProgram, is_ragged};
use funcify_conformance::properties::check_sampled;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|tape: Vec<u32>| {
    match Sample::new(&mut Choices::replayed(tape)) {
        Ok(sample) => {
            let program = TestProgram::from(&sample);
            if let Err(wrong) = check_sampled(&program) {
                panic!("{}: {}\n{}", wrong.property, wrong.reason, program.text());
            }
        }
        Err(error) => assert!(is_ragged(&error), "{error}"),
    }
});
