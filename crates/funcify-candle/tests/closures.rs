//! Compares closure loops with handwritten loops that use Candle's autodiff.

mod common;

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::rnn::{GRU, LSTM, LSTMState, RNN};
use candle_nn::{GRUConfig, LSTMConfig, Module, Optimizer, VarBuilder, VarMap};
use common::cells::{self, Cell};
use common::{assert_close, assert_gradients, backward, by_hand, loss, row, tensor, var};
use funcify_candle::{RnnExt, ScanOptions, scan_with};

const STEPS: usize = 7;
const BATCH: usize = 3;
const WIDTH: usize = 4;

/// Returns the sets of options that [`check`] passes to `scan_with`, with their names.
fn ways() -> Vec<(&'static str, ScanOptions)> {
    let new = ScanOptions::new;
    vec![
        ("root", new()),
        ("one segment", new().segments(1)),
        ("two segments", new().segments(2)),
        ("each step", new().segments(STEPS)),
        ("more segments than steps", new().segments(100)),
        ("graphs", new().keep_graphs()),
    ]
}

/// Runs a cell in a handwritten loop and in `scan_with` with each set of options. Compares the results, and the
/// gradients of the initial carry, the sequence and the variables.
fn check(name: &str, cell: Cell, shapes: &[&[usize]], carry: &[&[usize]], x: &[usize]) {
    for dtype in [DType::F32, DType::F64] {
        let vars: Vec<Var> = (0..).zip(shapes).map(|(seed, shape)| var(seed + 1, shape, dtype)).collect();
        let init: Vec<Var> = (0..).zip(carry).map(|(seed, shape)| var(seed + 50, shape, dtype)).collect();
        let xs = var(99, &[&[STEPS], x].concat(), dtype);
        let weights: Vec<Tensor> = vars.iter().map(|var| var.as_tensor().clone()).collect();
        let start: Vec<Tensor> = init.iter().map(|var| var.as_tensor().clone()).collect();
        for reverse in [false, true] {
            let step = |carry, t| cell(&weights, carry, row(&xs, t)?);
            let (last, ys) = by_hand(start.clone(), STEPS, reverse, step).unwrap();
            let all: Vec<&Tensor> = last.iter().chain([&ys]).collect();
            let expected = loss(&all).unwrap().backward().unwrap();
            for (way, options) in ways() {
                let what = format!("{name} {dtype:?} reverse={reverse} {way}");
                let options = if reverse { options.reverse() } else { options };
                let captured = weights.clone();
                let step = move |carry, x| cell(&captured, carry, x);
                let (found_last, found_ys) = scan_with(options, &start, xs.as_tensor(), step).unwrap();
                assert_close(&found_ys, &ys, &what);
                found_last.iter().zip(&last).for_each(|(found, last)| assert_close(found, last, &what));
                let all: Vec<&Tensor> = found_last.iter().chain([&found_ys]).collect();
                let every: Vec<&Var> = vars.iter().chain(&init).chain([&xs]).collect();
                assert_gradients(&backward(&all), &expected, &every, &what);
            }
        }
    }
}

#[test]
fn rnn() {
    let square = [WIDTH, WIDTH];
    check("rnn", cells::rnn, &[&square, &square, &[WIDTH]], &[&[BATCH, WIDTH]], &[BATCH, WIDTH]);
}

#[test]
fn gru() {
    let wide = [WIDTH, 3 * WIDTH];
    check("gru", cells::gru, &[&wide, &wide, &[3 * WIDTH]], &[&[BATCH, WIDTH]], &[BATCH, WIDTH]);
}

#[test]
fn lstm() {
    let wide = [WIDTH, 4 * WIDTH];
    let state = [BATCH, WIDTH];
    check("lstm", cells::lstm, &[&wide, &wide, &[4 * WIDTH]], &[&state, &state], &state);
}

/// Checks a diagonal state space model with complex states.
#[test]
fn s5() {
    let (square, state): ([usize; 2], [usize; 2]) = ([WIDTH, WIDTH], [BATCH, WIDTH]);
    let shapes: [&[usize]; 6] = [&[WIDTH], &[WIDTH], &square, &square, &square, &square];
    check("s5", cells::s5, &shapes, &[&state, &state], &state);
}

/// Checks the core of a selective state space model, in which the decay and the input projection depend on the input.
#[test]
fn selective_scan() {
    let n = 2;
    let shapes: [&[usize]; 5] = [&[WIDTH, WIDTH], &[WIDTH, n], &[WIDTH, n], &[WIDTH, n], &[WIDTH]];
    check("selective scan", cells::selective_scan, &shapes, &[&[BATCH, WIDTH, n]], &[BATCH, WIDTH]);
}

fn vars_of(map: &VarMap) -> Vec<Var> {
    map.all_vars()
}

/// Compares [`RnnExt`] with candle_nn's own loops. The cells are unmodified, and the sequences are batch-first.
#[test]
fn cells_of_candle_nn() {
    fn check<R: RnnExt>(
        name: &str,
        cell: &R,
        vars: &[Var],
        output: fn(&R::State) -> Tensor,
        leaves: fn(&R::State) -> Vec<Tensor>,
    ) {
        let xs = var(5, &[BATCH, STEPS, WIDTH], DType::F64);
        let states = cell.seq(&xs).unwrap();
        let hs = Tensor::stack(&states.iter().map(output).collect::<Vec<_>>(), 1).unwrap();
        let last = leaves(states.last().unwrap());
        let all: Vec<&Tensor> = last.iter().chain([&hs]).collect();
        let expected = loss(&all).unwrap().backward().unwrap();

        let (found_hs, found_last) = cell.scan(&xs).unwrap();
        assert_close(&found_hs, &hs, name);
        assert!(found_hs.is_contiguous());
        let found_last = leaves(&found_last);
        let all: Vec<&Tensor> = found_last.iter().chain([&found_hs]).collect();
        let every: Vec<&Var> = vars.iter().chain([&xs]).collect();
        assert_gradients(&backward(&all), &expected, &every, name);

        let zero = cell.zero_state(BATCH).unwrap();
        let (hs, _) = cell.scan_init(ScanOptions::new().reverse().segments(2), &xs, &zero).unwrap();
        let reversed = xs.flip(&[1]).unwrap();
        let expected = cell.scan(&reversed).unwrap().0.flip(&[1]).unwrap();
        assert_close(&hs, &expected, name);
    }

    let map = VarMap::new();
    let vb = VarBuilder::from_varmap(&map, DType::F64, &Device::Cpu);
    let lstm: LSTM = candle_nn::lstm(WIDTH, 5, LSTMConfig::default(), vb).unwrap();
    check("LSTM", &lstm, &vars_of(&map), |state| state.h.clone(), |state| vec![state.h.clone(), state.c.clone()]);

    let map = VarMap::new();
    let vb = VarBuilder::from_varmap(&map, DType::F64, &Device::Cpu);
    let gru: GRU = candle_nn::gru(WIDTH, 5, GRUConfig::default(), vb).unwrap();
    check("GRU", &gru, &vars_of(&map), |state| state.h.clone(), |state| vec![state.h.clone()]);
}

/// Trains a model that has layers before and after the loop, once with [`RnnExt`] and once with candle_nn's own loop.
/// The losses must be equal.
#[test]
fn training_is_the_same() {
    fn train(through_scan: bool) -> Result<Vec<f64>> {
        let map = VarMap::new();
        let vb = VarBuilder::from_varmap(&map, DType::F64, &Device::Cpu);
        let encoder = candle_nn::linear(2, WIDTH, vb.pp("encoder"))?;
        let lstm = candle_nn::lstm(WIDTH, WIDTH, LSTMConfig::default(), vb.pp("lstm"))?;
        let head = candle_nn::linear(WIDTH, 1, vb.pp("head"))?;
        let mut names: Vec<_> = map.data().lock().unwrap().iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        names.sort_by(|a, b| a.0.cmp(&b.0));
        for (seed, (_, var)) in (0..).zip(&names) {
            var.set(&(tensor(seed, var.dims(), DType::F64) * 0.5)?)?;
        }
        let mut optimiser = candle_nn::AdamW::new_lr(map.all_vars(), 0.02)?;
        let xs = tensor(7, &[BATCH, STEPS, 2], DType::F64);
        let target = tensor(8, &[BATCH, 1], DType::F64);
        let mut losses = Vec::new();
        for _ in 0..10 {
            let encoded = encoder.forward(&xs)?;
            let last = if through_scan { lstm.scan(&encoded)?.1 } else { lstm.seq(&encoded)?.pop().unwrap() };
            let loss = candle_nn::loss::mse(&head.forward(&last.h)?, &target)?;
            optimiser.backward_step(&loss)?;
            losses.push(loss.to_scalar()?);
        }
        Ok(losses)
    }
    let (found, expected) = (train(true).unwrap(), train(false).unwrap());
    for (found, expected) in found.iter().zip(&expected) {
        assert!((found - expected).abs() < 1e-10, "{found} != {expected}");
    }
    assert!(expected[9] < 0.8 * expected[0], "nothing was learned: {expected:?}");
}

/// Checks that a closure can call candle_nn's cells and carry their states, which are trees.
#[test]
fn a_cell_in_a_closure() {
    let map = VarMap::new();
    let vb = VarBuilder::from_varmap(&map, DType::F32, &Device::Cpu);
    let lstm = candle_nn::lstm(WIDTH, WIDTH, LSTMConfig::default(), vb).unwrap();
    let xs = tensor(3, &[STEPS, BATCH, WIDTH], DType::F32);
    let (cell, zero) = (lstm.clone(), lstm.zero_state(BATCH).unwrap());
    let step = move |state: LSTMState, x: Tensor| {
        let next = cell.step(&x, &state)?;
        Ok((next.clone(), (next.h, next.c)))
    };
    let (last, (hs, cs)) = funcify_candle::scan(&zero, &xs, step).unwrap();
    let states = lstm.seq(&xs.transpose(0, 1).unwrap()).unwrap();
    assert_close(&last.c, &states[STEPS - 1].c, "last");
    assert_close(&row(&hs, 2).unwrap(), &states[2].h, "h");
    assert_close(&row(&cs, 4).unwrap(), &states[4].c, "c");
}
