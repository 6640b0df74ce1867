//! Tests compiled loops on the frameworks' own tensors: views of one buffer, transposed matrices and masks. Inputs must
//! stay unchanged. Also tests a `while_loop` whose sizes are known only at the call.

use funcify::dispatch::{Backend, CompileOptions, Function, LoopStrategy};
use funcify::{
    DType, Graph, HostTensor, Scalar, TensorType, Value, constant, evaluate, full, scan, select, while_loop_bounded,
};
use funcify_burn::Burn;
use funcify_candle::Candle;
use funcify_tests::built;

const STEPS: usize = 7;

/// Builds a recurrent loop over two sequences and a mask. The loop also outputs a mask of the positive states.
fn recurrent(dtype: DType) -> Graph {
    built("recurrent", |g| {
        let [xs, ys] = ["xs", "ys"].map(|name| g.input(name, TensorType::new(dtype, [STEPS, 3])));
        let mask = g.input("mask", TensorType::new(DType::Bool, [STEPS, 3]));
        let w = g.input("w", TensorType::new(dtype, [3usize, 3]));
        scan(w.index(0, 0).zeros_like(), (xs, ys, mask), |h: Value, (x, y, m)| {
            let next = (h.unsqueeze(0).matmul(w).squeeze(0) + x * 2.0 - y).tanh();
            let next = select(m, next, h);
            (next, (next, next.gt(0.0)))
        })
    })
}

fn noise(dtype: DType, shape: &[usize]) -> HostTensor {
    HostTensor::from_fn(dtype, shape, |index| {
        let number = index.iter().fold(1.0, |number, index| number * 3.7 + *index as f64);
        Scalar::Float((number * 1.3).sin())
    })
}

/// Returns the rows `start..start + count` of a tensor.
fn rows(all: &HostTensor, start: usize, count: usize) -> HostTensor {
    let graph = built("rows", |g| g.input("x", all.ty()).slice(0, start..start + count));
    evaluate(&graph, std::slice::from_ref(all)).unwrap().remove(0)
}

fn check<B: Backend>(backend: &B) {
    for dtype in [DType::F32, DType::F64] {
        let (all, turned) = (noise(dtype, &[STEPS + 3, 3]), noise(dtype, &[3, 3]));
        let masks =
            HostTensor::from_fn(DType::Bool, &[STEPS + 1, 3], |index| Scalar::Bool((index[0] + index[1]) % 3 > 0));
        let transpose = built("transpose", |g| g.input("x", turned.ty()).t());
        let w = evaluate(&transpose, std::slice::from_ref(&turned)).unwrap().remove(0);
        let inputs = [rows(&all, 3, STEPS), rows(&all, 1, STEPS), rows(&masks, 1, STEPS), w];
        let graph = recurrent(dtype);
        let expected = evaluate(&graph, &inputs).unwrap();

        let upload = |tensor: &HostTensor| backend.upload(tensor).unwrap();
        let (all_there, masks_there, turned_there) = (upload(&all), upload(&masks), upload(&turned));
        let transpose = Function::compile(&transpose, backend).unwrap();
        let given = [
            backend.rows(&all_there, 3, STEPS).unwrap(),
            backend.rows(&all_there, 1, STEPS).unwrap(),
            backend.rows(&masks_there, 1, STEPS).unwrap(),
            transpose.call(std::slice::from_ref(&turned_there)).unwrap().remove(0),
        ];
        let function = Function::compile_with(&graph, backend, CompileOptions::default()).unwrap();
        for _ in 0..2 {
            let found = function.call(&given).unwrap();
            for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let found = backend.download(found, graph.output_type(index).dtype).unwrap();
                assert_eq!(found.ty(), expected.ty(), "{}", backend.name());
                for (found, expected) in found.to_f64_vec().iter().zip(expected.to_f64_vec()) {
                    assert!((found - expected).abs() < 1e-5, "{}: {found} is not {expected}", backend.name());
                }
            }
        }
        let loops = function.report().loops;
        assert!(loops.iter().all(|each| each.strategy == LoopStrategy::Compiled), "{}: {loops:?}", backend.name());
        assert_eq!(backend.download(&all_there, dtype).unwrap(), all);
        assert_eq!(backend.download(&masks_there, DType::Bool).unwrap(), masks);
        assert_eq!(backend.download(&turned_there, dtype).unwrap(), turned);
    }
}

#[test]
fn views_are_read_where_they_lie() {
    check(&Candle::cpu());
    check(&Burn::flex());
    check(&Burn::ndarray());
}

/// Checks that a program without loops is compiled once for all sizes, even on a backend that compiles loops separately
/// for each size.
#[test]
fn what_has_no_loop_is_compiled_once() {
    let graph = built("straight", |g| (g.input("x", "f32[N]") * 2.0).exp());
    let function = Function::compile(&graph, &Burn::flex()).unwrap();
    for count in 1..4usize {
        function.call_host(&[HostTensor::zeros(DType::F32, &[count])]).unwrap();
    }
    assert_eq!((function.counts().made, function.counts().reused), (1, 3));
}

/// Builds a greedy decoder that generates at most `most` tokens. The first token is an input. Each token selects a row
/// of `embed`, from which the step computes the next token. The token `end` ends the loop. All sizes except the length
/// of the token buffer are symbolic.
fn decoding(most: usize) -> Graph {
    built("decoding", |g| {
        let [embed, out] = [g.input("embed", "f32[V,H]"), g.input("out", "f32[H,V]")];
        let [h, first, end] = [g.input("h", "f32[H]"), g.input("first", "i64[]"), g.input("end", "i64[]")];
        let start = (full([most], DType::I64, -1.0), constant(0i64), first, h);
        let (tokens, count, _, _) = while_loop_bounded(
            most,
            start,
            |(_, _, token, _)| token.ne(end),
            |(tokens, count, token, h)| {
                let h = (embed.dynamic_index(0, token) + h * 0.5).tanh();
                let token = h.matmul(out).argmax(0);
                (tokens.dynamic_update(0, token.unsqueeze(0), count), count + 1, token, h)
            },
        );
        (count, tokens)
    })
}

#[test]
fn a_while_of_sizes_of_the_call_is_compiled() {
    fn check<B: Backend>(backend: &B) {
        let graph = decoding(9);
        let function = Function::compile(&graph, backend).unwrap();
        for (v, h) in [(12, 5), (7, 4), (12, 5)] {
            let fixed = [noise(DType::F32, &[v, h]), noise(DType::F32, &[h, v]), noise(DType::F32, &[h])];
            // The model ends up repeating one token forever. Of the two end tokens below, the first ends the loop
            // early, and the second never occurs.
            for end in [v as i64 - 1, -1] {
                let inputs = [&fixed[..], &[HostTensor::scalar(1i64), HostTensor::scalar(end)]].concat();
                let expected = evaluate(&graph, &inputs).unwrap();
                assert_eq!(function.call_host(&inputs).unwrap(), expected, "{}", backend.name());
            }
            let loops = function.report().loops;
            assert!(loops.iter().all(|each| each.strategy == LoopStrategy::Compiled), "{}: {loops:?}", backend.name());
            assert_eq!(loops.len(), 1);
        }
    }
    check(&Candle::cpu());
    check(&Burn::flex());
}

/// Tests bool tensors with bytes other than 0 and 1, in the first call for a size and in later calls, which reuse the
/// compiled program.
#[test]
fn a_byte_that_is_not_zero_is_true() {
    let graph = built("count", |g| {
        let (none, masks) = (g.input("none", "f32[3]"), g.input("masks", "bool[T,3]"));
        scan(none, masks, |count, mask| (count + mask.cast(DType::F32), ())).0
    });
    let function = Function::compile(&graph, &Candle::cpu()).unwrap();
    for (truth, steps) in [(1u8, STEPS), (2, STEPS), (255, 2), (1, STEPS)] {
        let bytes: Vec<u8> = (0..steps * 3).map(|index| if index % 3 > 0 { truth } else { 0 }).collect();
        let masks = candle_core::Tensor::from_vec(bytes, (steps, 3), &candle_core::Device::Cpu).unwrap();
        let none = Candle::cpu().upload(&HostTensor::from_vec(vec![0f32; 3], [3]).unwrap()).unwrap();
        let counts: Vec<f32> = function.call(&[none, masks]).unwrap()[0].to_vec1().unwrap();
        assert_eq!(counts, [0.0, steps as f32, steps as f32], "bytes of {truth}, {steps} steps");
    }
    assert_eq!(function.report().loops[0].strategy, LoopStrategy::Compiled);
}
