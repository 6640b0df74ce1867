//! Compares the kernels with the reference evaluator on random operands.

use funcify_core::error::{Place, Site};
use funcify_core::ops::{self, Conv, EvalContext, OpRules, ReduceKind, Words};
use funcify_core::types::{Dim, Shape};
use funcify_core::{HostTensor, Scalar};
use pulp::Arch;
use pulp::bytemuck::{cast_slice, cast_slice_mut};

use super::*;

const NUMBERS: [DType; 8] =
    [DType::U8, DType::U32, DType::I32, DType::I64, DType::F16, DType::BF16, DType::F32, DType::F64];
const FLOATS: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];

/// A small generator of pseudorandom numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn choose<E: Copy>(&mut self, all: &[E]) -> E {
        all[self.below(all.len())]
    }

    fn shape(&mut self, rank: usize) -> Vec<usize> {
        (0..rank).map(|_| self.choose(&[0, 1, 1, 2, 3, 5, 8, 33, 40])).collect()
    }

    /// Returns a random element: often one of a few small numbers, otherwise a number of any magnitude or a special
    /// value such as NaN.
    fn element(&mut self, dtype: DType) -> Scalar {
        let small = self.below(7) as i64 - 3;
        let bits = (self.below(1 << 31) as i64) << 33 ^ (self.below(1 << 31) as i64) << 11;
        match dtype {
            DType::Bool => Scalar::Bool(small > 0),
            dtype if dtype.is_int() => Scalar::Int(if self.below(2) == 0 { small } else { bits >> self.below(64) }),
            _ => Scalar::Float(match self.below(12) {
                0 => f64::NAN,
                1 => f64::INFINITY,
                2 => f64::NEG_INFINITY,
                3 => -0.0,
                4..7 => small as f64,
                7 => f64::from_bits(bits as u64),
                _ => (self.below(2001) as f64 - 1000.0) / 128.0,
            }),
        }
    }

    fn tensor(&mut self, dtype: DType, shape: &[usize]) -> HostTensor {
        HostTensor::from_fn(dtype, shape, |_| self.element(dtype))
    }

    /// Returns a tensor of random multiples of 1/64 between -1.5625 and 1.5625.
    fn numbers(&mut self, dtype: DType, shape: &[usize]) -> HostTensor {
        HostTensor::from_fn(dtype, shape, |_| Scalar::Float((self.below(201) as f64 - 100.0) / 64.0))
    }
}

/// Returns the elements of a tensor as bytes, in the type in which a plan holds them.
fn bytes(tensor: &HostTensor, float: DType) -> Vec<u8> {
    match tensor.dtype().is_int() {
        true => tensor.storage().to_le_bytes(),
        false => tensor.cast(float).storage().to_le_bytes(),
    }
}

/// A run of a kernel on bytes that are aligned for all element types.
struct Run<'a> {
    kernel: &'a WholeKernel,
    float: DType,
    result: usize,
    to: &'a mut [u8],
    from: &'a [&'a [u8]],
}

impl WithSimd for Run<'_> {
    type Output = ();

    fn with_simd<S: Simd>(self, simd: S) {
        match self.float {
            DType::F64 => self.kernel.run::<f64, S>(simd, self.result, self.to, self.from),
            _ => self.kernel.run::<f32, S>(simd, self.result, self.to, self.from),
        }
    }
}

/// Runs an op with its kernel and with the reference evaluator. Returns the results of both for each combination of a
/// float type and an instruction set, or `None` if the reference evaluator fails.
fn results(op: &Op, inputs: &[HostTensor]) -> Option<Vec<[Vec<HostTensor>; 2]>> {
    let at = || Place::new(op.name(), Site::Unknown);
    let input_types: Vec<TensorType> = inputs.iter().map(HostTensor::ty).collect();
    let types = op.infer(&at(), &input_types).ok()?;
    let mut sizes = Sizes::new();
    let expected = op.eval(&mut EvalContext { at: at(), sizes: &mut sizes }, inputs, &types).ok()?;
    let is_wide = inputs.iter().chain(&expected).any(|tensor| tensor.dtype() == DType::F64);
    let mut all = Vec::new();
    for float in [DType::F32, DType::F64].into_iter().filter(|float| !is_wide || *float == DType::F64) {
        let kernel = WholeKernel::of(op, &input_types, &types, &sizes, float);
        let kernel = kernel.unwrap_or_else(|| panic!("{} has no kernel", op.name()));
        for arch in [Arch::Scalar, Arch::new()] {
            // Align the bytes of each tensor for every element type.
            let streams = inputs.iter().chain(&expected).enumerate().map(|(at, tensor)| {
                let bytes = bytes(tensor, float);
                let mut stream = vec![0u128; bytes.len().div_ceil(16)];
                cast_slice_mut(&mut stream)[..bytes.len()].copy_from_slice(&bytes);
                if at >= inputs.len() {
                    cast_slice_mut::<u128, u8>(&mut stream).fill(0x5a);
                }
                (stream, bytes.len())
            });
            let mut streams: Vec<(Vec<u128>, usize)> = streams.collect();
            for result in (0..expected.len()).rev() {
                let (mut to, len) = (streams[inputs.len() + result].0.clone(), streams[inputs.len() + result].1);
                // Empty streams are unaligned, to test that kernels accept them.
                let unaligned = &cast_slice::<u128, u8>(&[0])[1..1];
                let from: Vec<&[u8]> = streams
                    .iter()
                    .map(|(stream, len)| if *len == 0 { unaligned } else { &cast_slice(stream)[..*len] })
                    .collect();
                let run = Run { kernel: &kernel, float, result, to: &mut cast_slice_mut(&mut to)[..len], from: &from };
                arch.dispatch(run);
                streams[inputs.len() + result].0 = to;
            }
            let of_result = |(expected, (stream, len)): (&HostTensor, &(Vec<u128>, usize))| {
                let dtype = if expected.dtype().is_int() { expected.dtype() } else { float };
                let storage = funcify_core::Storage::from_le_bytes(dtype, &cast_slice(stream)[..*len]);
                HostTensor::new(expected.shape(), storage).expect("as many elements").cast(expected.dtype())
            };
            let found = expected.iter().zip(&streams[inputs.len()..]).map(of_result).collect();
            all.push([expected.clone(), found]);
        }
    }
    Some(all)
}

/// Checks that the kernel of an op and the reference evaluator return bit-identical results, except for the bits of
/// NaN. Returns `false` if the reference evaluator fails.
fn check(op: impl Into<Op>, inputs: &[HostTensor]) -> bool {
    let op = op.into();
    let Some(all) = results(&op, inputs) else { return false };
    for [expected, found] in all {
        assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{op:?} of {inputs:?}");
        let bits = |tensor: &HostTensor| tensor.scalars().map(|x| x.as_f64().to_bits()).collect::<Vec<u64>>();
        for (expected, found) in expected.iter().zip(&found) {
            let pairs = bits(expected).into_iter().zip(bits(found));
            let is_same = |(x, y): (u64, u64)| x == y || f64::from_bits(x).is_nan() && f64::from_bits(y).is_nan();
            assert!(pairs.into_iter().all(is_same), "{op:?} of {inputs:?}: {found:?} instead of {expected:?}");
        }
    }
    true
}

/// Calls `case` `count` times, each time with a generator that has a different seed. `case` returns `false` if the
/// reference evaluator fails, because there is then nothing to compare. Asserts that more than half of the calls return
/// `true`.
fn cases(count: u64, mut case: impl FnMut(&mut Random) -> bool) {
    let checked = (0..count).filter(|seed| case(&mut Random(seed * 77 + 1))).count() as u64;
    assert!(checked * 2 > count, "only {checked} of {count} cases were checked");
}

#[test]
fn sorts_and_largest_elements() {
    cases(200, |random| {
        let rank = 1 + random.below(3);
        let (shape, axis, descending) = (random.shape(rank), random.below(rank), random.below(2) == 0);
        let dtype = random.choose(&[DType::Bool].into_iter().chain(NUMBERS).collect::<Vec<_>>());
        let x = random.tensor(dtype, &shape);
        check(ops::Sort { axis, descending }, std::slice::from_ref(&x)) | check(ops::ArgMax { axis }, &[x])
    });
    // These lines are long enough for a radix sort.
    for (seed, dtype) in NUMBERS.into_iter().enumerate() {
        let x = Random(seed as u64).tensor(dtype, &[700, 2]);
        assert!(
            [false, true]
                .into_iter()
                .all(|descending| check(ops::Sort { axis: 0, descending }, std::slice::from_ref(&x)))
        );
    }
}

#[test]
fn folds_along_axes() {
    const LOGICAL: [ReduceKind; 2] = [ReduceKind::Any, ReduceKind::All];
    const OF_NUMBERS: [ReduceKind; 4] = [ReduceKind::Sum, ReduceKind::Prod, ReduceKind::Max, ReduceKind::Min];
    cases(300, |random| {
        let rank = 1 + random.below(3);
        let shape = random.shape(rank);
        let (kind, dtype) = match random.below(5) {
            0 => (random.choose(&LOGICAL), DType::Bool),
            _ => (random.choose(&OF_NUMBERS), random.choose(&NUMBERS)),
        };
        let x = random.tensor(dtype, &shape);
        let axes = (0..rank).filter(|_| random.below(2) == 0).collect();
        let (axis, reverse) = (random.below(rank), random.below(2) == 0);
        check(ops::Reduce { kind, axes }, std::slice::from_ref(&x))
            && check(ops::Cumulative { kind, axis, reverse }, &[x])
    });
    assert!(check(ops::Reduce { kind: ReduceKind::Sum, axes: vec![] }, &[HostTensor::scalar(3i32)]));
}

#[test]
fn products_of_integers() {
    cases(60, |random| {
        let dtype = random.choose(&NUMBERS[..4]);
        let [batch, rows, inner, columns] = [(); 4].map(|()| random.choose(&[0, 1, 2, 3, 17, 40]));
        let (left, right) =
            (random.tensor(dtype, &[batch, rows, inner]), random.tensor(dtype, &[batch, inner, columns]));
        check(ops::MatMul, &[left, right])
    });
}

#[test]
fn random_bits() {
    cases(40, |random| {
        let keys = [random.below(4), 2];
        let (key, counter) = (random.tensor(DType::U32, &keys), random.tensor(DType::U32, &keys));
        let (mut shape, words) = (random.shape(2), random.choose(&[Words::Mixed, Words::Both]));
        shape[0] *= random.choose(&[1, 9]);
        check(ops::Threefry { shape: Shape::from(shape.as_slice()), words }, &[key, counter])
    });
}

#[test]
fn elements() {
    for (from, all) in [
        (DType::F32, [DType::F32, DType::I32, DType::U32].as_slice()),
        (DType::U32, &[DType::F32, DType::I32]),
        (DType::I64, &[DType::I64, DType::F64]),
        (DType::F64, &[DType::I64]),
        (DType::F16, &[DType::F16]),
        (DType::Bool, &[DType::Bool]),
    ] {
        for to in all {
            assert!(check(ops::Bitcast { dtype: *to }, &[Random(3).tensor(from, &[200])]), "{from} to {to}");
        }
    }
    for dtype in NUMBERS {
        for size in [0, 1, 5000] {
            assert!(check(ops::Iota { size: Dim::from(size), dtype }, &[]));
        }
    }
    for dtype in FLOATS {
        let [x, y] = [5, 6].map(|seed| Random(seed).tensor(dtype, &[300]));
        for order in 1..4 {
            assert!(check(ops::Polygamma { order }, std::slice::from_ref(&x)));
        }
        assert!(check(ops::NextAfter, &[x, y]));
    }
    // Converting this integer to f64 first would round it twice.
    let above_the_middle = HostTensor::from([(1i64 << 60) + (1 << 52) + 1]);
    assert!(check(ops::Cast { dtype: DType::BF16 }, &[above_the_middle]));
    let above_the_middle = HostTensor::from([(1i64 << 60) + (1 << 36) + 1]);
    assert!(check(ops::Cast { dtype: DType::F32 }, &[above_the_middle]));
    for from in &NUMBERS[..4] {
        for dtype in [DType::F16, DType::BF16, DType::F32] {
            assert!(check(ops::Cast { dtype }, &[Random(7).tensor(*from, &[500])]));
        }
    }
}

/// Returns a random convolution over one or two axes, and its operands. With `has_special`, the operands may contain
/// infinities and NaN.
fn convolution(random: &mut Random, dtype: DType, has_special: bool) -> (Conv, [HostTensor; 2]) {
    let spatial = 1 + random.below(2);
    let groups = random.choose(&[1, 1, 2, 3]);
    let (channels, results) = (random.choose(&[0, 1, 2, 5]), random.choose(&[1, 2, 14]));
    let mut list = |all: &[usize]| (0..spatial).map(|_| random.choose(all)).collect::<Vec<usize>>();
    let (sizes, windows) = (list(&[0, 1, 4, 7, 11, 40]), list(&[1, 2, 3, 3, 5, 9]));
    let (strides, dilation) = (list(&[1, 1, 2, 3]), list(&[1, 1, 2, 3]));
    let input_dilation = list(&[1, 1, 2, 3, 6]);
    let mut pads = || (0..spatial).map(|_| Dim::from(random.below(16) as i64 - 3)).collect::<Vec<Dim>>();
    let (low, high) = (pads(), pads());
    let op = Conv { strides, low, high, dilation, input_dilation, groups: Dim::from(groups) };
    let x = [vec![random.choose(&[0, 1, 2, 3]), groups * channels], sizes].concat();
    let kernel = [vec![groups * results, channels], windows].concat();
    let mut numbers = |shape: &[usize]| match has_special {
        true => random.tensor(dtype, shape),
        false => random.numbers(dtype, shape),
    };
    (op, [numbers(&x), numbers(&kernel)])
}

/// Checks that the kernel of a convolution agrees with the reference evaluator, up to the rounding errors of its sums.
/// Returns `false` if the reference evaluator fails.
fn check_convolution(op: Conv, inputs: &[HostTensor]) -> bool {
    let Some(all) = results(&op.clone().into(), inputs) else { return false };
    for [expected, found] in all {
        let tolerance = match expected[0].dtype() {
            DType::F64 => 1e-12,
            DType::F32 => 1e-4,
            DType::F16 => 1e-2,
            _ => 1e-1,
        };
        for (at, (x, y)) in expected[0].to_f64_vec().into_iter().zip(found[0].to_f64_vec()).enumerate() {
            let is_near = x == y || (x - y).abs() <= tolerance * x.abs().max(1.0) || x.is_nan() && y.is_nan();
            assert!(is_near, "{op:?} of {inputs:?}: element {at} is {y} instead of {x}");
        }
    }
    true
}

#[test]
fn convolutions_and_their_transposes() {
    let mut transposes = 0;
    cases(300, |random| {
        let dtype = random.choose(&FLOATS);
        let (op, inputs) = convolution(random, dtype, false);
        let [x, kernel] = [0, 1].map(|at: usize| inputs[at].ty());
        let graph = funcify_core::Graph::build("transposes", |g| {
            let (x, k) = (g.input("x", x.clone()), g.input("k", kernel.clone()));
            let y = funcify_core::apply(op.clone(), &[x, k])[0];
            (op.input_transpose(&x.shape(), k, y), op.kernel_transpose(&k.shape(), x, y))
        });
        // Also check the convolutions in the gradients, with random operands of the right shapes.
        let convolutions = graph.iter().flat_map(|graph| graph.nodes().iter().map(move |node| (graph, node)));
        for (graph, node) in convolutions.skip(1) {
            let Op::Conv(op) = &node.op else { continue };
            let shape = |at: usize| graph.ty(node.inputs[at]).shape.constant().unwrap();
            let inputs = [0, 1].map(|at| random.numbers(dtype, &shape(at)));
            transposes += usize::from(check_convolution(op.clone(), &inputs));
        }
        check_convolution(op, &inputs)
    });
    assert!(transposes > 200, "{transposes} transposes");
}

/// Tests convolutions that are large enough to be computed in f32.
#[test]
fn large_convolutions() {
    let padding = [(1, 1); 2];
    for (groups, strides) in [(1, [1, 1]), (2, [1, 2])] {
        let op = Conv::from(ops::ConvOptions { padding, groups, strides, ..ops::ConvOptions::default() });
        let (x, kernel) = ([2, 34, 11, 13], [6, 34 / groups, 3, 3]);
        let inputs = [Random(1).numbers(DType::F32, &x), Random(2).numbers(DType::F32, &kernel)];
        assert!(check_convolution(op, &inputs));
    }
}

/// Tests that the zeros of the padding are multiplied like other elements, so that 0 times infinity is NaN. All sums
/// are exact, infinite or NaN, so f32 and f64 agree.
#[test]
fn zeros_times_infinities() {
    cases(200, |random| {
        let (op, inputs) = convolution(random, DType::F32, true);
        let special = inputs.map(|input| {
            HostTensor::from_fn(DType::F32, input.shape(), |index| match input.at(index).as_f64() {
                x if x.is_finite() => Scalar::Float((x % 4.0).trunc()),
                x if random.below(8) == 0 => Scalar::Float(x),
                _ => Scalar::Float(1.0),
            })
        });
        check_convolution(op, &special)
    });
}
