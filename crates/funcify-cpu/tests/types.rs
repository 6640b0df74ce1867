//! Tests programs with types other than the plan's float type: narrower floats, floats of two types, and random bits.

mod numbers;

use funcify::dispatch::{Function, LoopStrategy};
use funcify::ops::{ScatterMode, Threefry, Words};
use funcify::{DType, Graph, HostTensor, Value, apply, concat, constant, iota, random, scan};
use funcify_cpu::{Cpu, OnSlices};
use numbers::{built, numbers};

/// Runs a program, and asserts that all its loops are compiled. Returns the results.
fn compiled(graph: &Graph, inputs: &[HostTensor]) -> Vec<HostTensor> {
    let function = Function::compile(graph, &Cpu::default()).unwrap();
    let found = function.call_host(inputs).unwrap();
    let report = function.report();
    assert!(!report.loops.is_empty());
    assert!(report.loops.iter().all(|each| each.strategy == LoopStrategy::Compiled), "{report}");
    found
}

fn same_bits(graph: &Graph, inputs: &[HostTensor]) {
    let expected = funcify::evaluate(graph, inputs).unwrap();
    for (found, expected) in compiled(graph, inputs).iter().zip(&expected) {
        assert_eq!(found.ty(), expected.ty());
        assert_eq!(found.storage().to_le_bytes(), expected.storage().to_le_bytes(), "{found:?}, not {expected:?}");
    }
}

/// Each step rounds the sum, so a running sum of ones stops growing at 2,048 in f16 and at 256 in bf16.
#[test]
fn narrower_floats_are_rounded_by_each_op() {
    for (dtype, end) in [(DType::F16, 2048.0), (DType::BF16, 256.0)] {
        let sums = built("sums", |g| {
            let (start, xs) =
                (g.input("start", format!("{dtype}[]").as_str()), g.input("xs", format!("{dtype}[T]").as_str()));
            scan(start, xs, |sum, x| (sum + x, sum + x)).0
        });
        let ones = HostTensor::from([1f32; 3000]).cast(dtype);
        let found = compiled(&sums, &[HostTensor::from(0f32).cast(dtype), ones]);
        assert_eq!(found[0].to_f64_vec(), [end]);
    }
}

/// The values of `iota` count from 0, even if the range is too long to store as a constant of the plan.
#[test]
fn many_positions_count_from_0() {
    let graph = built("positions", |g| {
        let xs = g.input("xs", "f32[2]");
        let step = |sum: Value, x: Value| {
            let positions = iota(70_000, DType::I64).cast(DType::F32) + x;
            (sum + x, concat(&[positions.slice(0, ..2), positions.slice(0, 69_999..)], 0))
        };
        scan(constant(0f32), xs, step).1
    });
    let found = compiled(&graph, &[HostTensor::from([0f32, 1.0])]);
    assert_eq!(found[0].to_f64_vec(), [0.0, 1.0, 69_999.0, 1.0, 2.0, 70_000.0]);
}

/// Zeros of different signs are stored as different constants.
#[test]
fn zeros_keep_their_signs() {
    let graph = built("zeros", |g| {
        let xs = g.input("xs", "f32[2,3]");
        let zeros =
            concat(&[constant(0f32).unsqueeze(0), constant(-0f32).unsqueeze(0), constant(0f32).unsqueeze(0)], 0);
        scan(xs.index(0, 0), xs, |sum, x| (sum + x, (x * 0.0, x * -0.0, x.copysign(-0.0), sum * zeros)))
    });
    same_bits(&graph, &[HostTensor::from([[1f32, 2.0, 3.0], [0.5, 1.0, 1.5]])]);
}

/// A scatter rounds the sum after each update, even if a step updates an element twice.
#[test]
fn narrower_floats_are_rounded_by_each_update() {
    for (dtype, large) in [(DType::F16, 2048f32), (DType::BF16, 256.0)] {
        let graph = built("updates", |g| {
            let start = g.input("start", format!("{dtype}[2]").as_str());
            let updates = g.input("updates", format!("{dtype}[T,2]").as_str());
            let places = constant(HostTensor::from([0i64, 0]));
            scan(start, updates, |sums, updates| (sums.scatter(0, places, updates, ScatterMode::Add), ())).0
        });
        let function = Function::compile(&graph, &Cpu::default()).unwrap();
        assert!(function.report().fallback.is_empty());
        let inputs = [HostTensor::from([large, 0.0]), HostTensor::from([[1f32, 1.0]; 3])].map(|x| x.cast(dtype));
        assert_eq!(function.call_host(&inputs).unwrap()[0].to_f64_vec(), [large.into(), 0.0]);
    }
}

#[test]
fn narrower_floats_have_the_bits_of_the_reference() {
    for dtype in [DType::F16, DType::BF16] {
        let network = built("network", |g| {
            let ty = |shape: &str| format!("{dtype}[{shape}]");
            let (h, xs) = (g.input("h", ty("4").as_str()), g.input("xs", ty("T,4").as_str()));
            let w = g.input("w", ty("4").as_str());
            let step = |h: Value, x: Value| {
                let next = h * w + x * x - (h.abs() / (x.abs() + 1.5)).sqrt().maximum(-h);
                let wide = next.cast(DType::F32) * 1.0001;
                (wide.cast(next.dtype()), (next, wide))
            };
            scan(h.abs(), xs, step)
        });
        let inputs = [numbers(&[4], 1), numbers(&[9, 4], 2), numbers(&[4], 3)].map(|x| x.cast(dtype));
        same_bits(&network, &inputs);
    }
}

#[test]
fn floats_of_two_types_are_one_plan() {
    let mixed = built("mixed", |g| {
        let (total, xs) = (g.input("total", "f64[3]"), g.input("xs", "f32[T,3]"));
        scan(total, xs, |total, x| {
            let y = x * x + x / 3.0;
            (total + y.cast(DType::F64), (y, total.cast(DType::F32)))
        })
    });
    same_bits(&mixed, &[numbers(&[3], 1).cast(DType::F64), numbers(&[7, 3], 2)]);
}

#[test]
fn random_walks_are_compiled() {
    for dtype in [DType::F32, DType::F64, DType::F16] {
        let walk = built("walk", |g| {
            let (key, x) = (g.input("key", "u32[2]"), g.input("x", format!("{dtype}[5]").as_str()));
            let times = iota(20, DType::I64);
            scan((key, x), times, |(key, x), t| {
                let [next, own] = random::split(key, 2).unstack(0);
                let own = random::fold_in(own, t);
                let step = random::uniform(own, [5], dtype, -1.0, 1.0);
                ((next, x + step), (x, next, random::bits(own, [3])))
            })
        });
        for seed in [0, 42, -1] {
            same_bits(&walk.clone(), &[random::host_key(seed), numbers(&[5], 1).cast(dtype)]);
        }
    }
}

/// Tests several keys, more blocks than the engine computes at once, and a counter that overflows into its second word.
#[test]
fn random_bits_of_several_keys_are_those_of_the_reference() {
    let bits = built("bits", |g| {
        let (keys, x) = (g.input("keys", "u32[3,2]"), g.input("x", "f32[3,37]"));
        scan((keys, x), iota(6, DType::I64), |(keys, x), _| {
            let low = keys.index(-1, 1);
            let next = keys ^ random::fold_in(keys, (low * 5 - (low << 3)) & 0xffff);
            let drawn = random::uniform(next, [37], DType::F32, 0.0, 1.0);
            ((next, x * 0.5 + drawn), random::split(next, 2))
        })
    });
    let keys = HostTensor::from([[0u32, 1], [u32::MAX, 7], [0x7fc0_0001, 0xff80_0001]]);
    same_bits(&bits, &[keys, numbers(&[3, 37], 1)]);
}

/// The random bits depend on both words of a counter, and shifts by 32 bits or more are supported.
#[test]
fn words_have_all_their_bits() {
    let bits = built("bits", |g| {
        let (key, x) = (g.input("key", "u32[2]"), g.input("x", "f32[3]"));
        let counter = constant(HostTensor::from([3u32, u32::MAX]));
        scan((counter, x), iota(5, DType::I64), |(counter, x), t| {
            let op = Threefry { shape: [3].into(), words: Words::Mixed };
            let drawn = apply(op, &[key, counter])[0];
            let places = (t * 11).cast(DType::U32).broadcast_to([3]);
            let [left, right] = [drawn << places, drawn >> places];
            ((counter + 1, x + (right >> 8).cast(DType::F32)), (left, right, drawn))
        })
    });
    same_bits(&bits, &[random::host_key(7), numbers(&[3], 1)]);
}

/// Casts a word to bf16. If the word were first rounded to f32, it would be halfway between two bf16 numbers, and the
/// cast would then round it the wrong way.
#[test]
fn words_are_rounded_once() {
    let graph = built("rounded", |g| {
        let (key, x) = (g.input("key", "u32[2]"), g.input("x", "f32[T]"));
        scan(x.sum(0), x, |sum, x| {
            let rounded = (key ^ 0).cast(DType::BF16);
            (sum + x, (rounded, key.cast(DType::F16), random::bits(key, [2])))
        })
    });
    let inputs = [HostTensor::from([(1u32 << 24) + (1 << 16) + 1, (1 << 11) + 1]), HostTensor::from([0.5f32, 2.0])];
    let found = Function::compile(&graph, &Cpu::default()).unwrap().call_host(&inputs).unwrap();
    assert_eq!(found, funcify::evaluate(&graph, &inputs).unwrap());
}

/// The `u32` elements of a random key may be too large for an f32 to represent exactly. Ops that use them as numbers
/// must not round them.
#[test]
fn numbers_of_words_are_not_rounded() {
    let graph = built("numbers", |g| {
        let (key, x) = (g.input("key", "u32[2]"), g.input("x", "f32[T]"));
        scan(x.sum(0), x, |sum, x| {
            let odd = (key.cast(DType::I64) % 2).cast(DType::F32).sum(0);
            (sum + x, (sum * odd, random::bits(key, [2])))
        })
    });
    // Shifting the second word by 0 bits keeps all its bits.
    let shifted = built("shifted", |g| {
        let (key, x) = (g.input("key", "u32[2]"), g.input("x", "f32[T]"));
        scan(x.sum(0), x, |sum, x| {
            let numbers = (key >> constant(HostTensor::from([8u32, 0]))).cast(DType::I64);
            (sum + x, (numbers, random::bits(key, [2])))
        })
    });
    let inputs = [HostTensor::from([u32::MAX, 33_554_433]), HostTensor::from([0.5f32, 2.0])];
    for graph in [graph, shifted] {
        let found = Function::compile(&graph, &Cpu::default()).unwrap().call_host(&inputs).unwrap();
        assert_eq!(found, funcify::evaluate(&graph, &inputs).unwrap());
    }
}

#[test]
fn slices_have_floats_of_one_type() {
    let half = built("half", |g| scan(g.input("h", "f16[2]"), g.input("xs", "f16[T,2]"), |h, x| (h + x, h)).1);
    let error = OnSlices::compile(&half, &[&[2], &[3, 2]]).unwrap_err();
    assert!(error.to_string().contains("slices of f32 elements cannot hold f16"), "{error}");
}
