//! Tests that layers agree with plain loops over numbers. Also runs each layer on two consecutive pieces of a sequence,
//! passing the states from the first piece to the second, and tests that the results equal those for the whole
//! sequence.

use super::*;
use funcify_core::evaluate;

/// Returns a tensor of pseudorandom numbers between -1 and 1.
fn noise(shape: &[usize], seed: u64) -> HostTensor {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    HostTensor::from_fn(DType::F64, shape, |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Scalar::Float((state >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
    })
}

/// Returns pseudorandom arguments for a layer: a sequence, states and parameters.
fn arguments(layer: &Layer, xs: &[usize], batch: usize) -> Vec<HostTensor> {
    let sizes = |ty: &TensorType| -> Vec<usize> {
        ty.shape.dims().iter().map(|dim| dim.constant().map_or(batch, |size| size as usize)).collect()
    };
    let states = layer.states.iter().map(sizes);
    let parameters = layer.parameters.iter().map(|parameter| parameter.shape.clone());
    let shapes = std::iter::once(xs.to_vec()).chain(states).chain(parameters);
    shapes.enumerate().map(|(index, shape)| noise(&shape, 7 + index as u64)).collect()
}

fn assert_close(found: &HostTensor, expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.to_f64_vec().iter().zip(expected) {
        assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Computes `W x + b`, where W has one row per output feature.
fn affine(weight: &HostTensor, x: &[f64], bias: &HostTensor) -> Vec<f64> {
    let (rows, bias) = (weight.shape()[0], bias.to_f64_vec());
    (0..rows).map(|row| bias[row] + (0..x.len()).map(|i| weight.at(&[row, i]).as_f64() * x[i]).sum::<f64>()).collect()
}

/// Runs one direction of a recurrent layer for one batch element. Returns one output per row of `xs`, in the same
/// order, and the last states.
fn recur(cell: Cell, xs: &[Vec<f64>], init: [Vec<f64>; 2], weights: &[HostTensor], reverse: bool) -> Run {
    let [mut h, mut c] = init;
    let size = h.len();
    let mut ys = vec![Vec::new(); xs.len()];
    let order: Vec<usize> = if reverse { (0..xs.len()).rev().collect() } else { (0..xs.len()).collect() };
    for t in order {
        let (x, r) = (affine(&weights[0], &xs[t], &weights[2]), affine(&weights[1], &h, &weights[3]));
        let sum = |gate: usize, i: usize| x[gate * size + i] + r[gate * size + i];
        h = match cell {
            Cell::Rnn => (0..size).map(|i| sum(0, i).tanh()).collect(),
            Cell::ReluRnn => (0..size).map(|i| sum(0, i).max(0.0)).collect(),
            Cell::Gru => {
                let next = |i: usize| {
                    let (reset, update) = (sigmoid(sum(0, i)), sigmoid(sum(1, i)));
                    (1.0 - update) * (x[2 * size + i] + reset * r[2 * size + i]).tanh() + update * h[i]
                };
                (0..size).map(next).collect()
            }
            Cell::Lstm => {
                c = (0..size).map(|i| sigmoid(sum(1, i)) * c[i] + sigmoid(sum(0, i)) * sum(2, i).tanh()).collect();
                (0..size).map(|i| sigmoid(sum(3, i)) * c[i].tanh()).collect()
            }
        };
        ys[t] = h.clone();
    }
    Run { ys, last: [h, c] }
}

struct Run {
    ys: Vec<Vec<f64>>,
    last: [Vec<f64>; 2],
}

#[test]
fn recurrent_layers_stacked_in_both_directions() {
    let (batch, time, input, hidden) = (2, 4, 3, 2);
    for cell in [Cell::Rnn, Cell::ReluRnn, Cell::Gru, Cell::Lstm] {
        let options =
            Recurrent { layers: 2, bidirectional: true, dtype: DType::F64, ..Recurrent::new(cell, input, hidden) };
        let layer = options.layer().unwrap();
        let arguments = arguments(&layer, &[batch, time, input], batch);
        let results = evaluate(&layer.graph, &arguments).unwrap();
        let states = layer.states.len();
        let weights = &arguments[1 + states..];
        let names: Vec<&str> = layer.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        let reverse = ["weight_ih", "weight_hh", "bias_ih", "bias_hh"].map(|name| format!("{name}_l0_reverse"));
        assert_eq!(names[4..8], reverse);
        assert_eq!(layer.parameters[8].shape[1], 2 * hidden);
        let mut ys = Vec::new();
        let mut last = vec![vec![vec![Vec::new(); batch]; 4]; states];
        for b in 0..batch {
            let mut xs: Vec<Vec<f64>> =
                (0..time).map(|t| (0..input).map(|i| arguments[0].at(&[b, t, i]).as_f64()).collect()).collect();
            for number in 0..2 {
                let mut next = vec![Vec::new(); time];
                for direction in 0..2 {
                    let row = 2 * number + direction;
                    let init = |state: usize| {
                        let state = &arguments[1 + state.min(states - 1)];
                        (0..hidden).map(|i| state.at(&[row, b, i]).as_f64()).collect()
                    };
                    let run = recur(cell, &xs, [init(0), init(1)], &weights[4 * row..], direction == 1);
                    next.iter_mut().zip(run.ys).for_each(|(next, y)| next.extend(y));
                    last.iter_mut().zip(run.last).for_each(|(last, state)| last[row][b] = state);
                }
                xs = next;
            }
            ys.extend(xs.concat());
        }
        assert_close(&results[0], &ys);
        for (result, last) in results[1..].iter().zip(&last) {
            assert_close(result, &last.concat().concat());
        }
    }
}

#[test]
fn state_spaces_are_recurrences_of_complex_numbers() {
    let (batch, time, features, states) = (2, 5, 3, 2);
    for associative in [true, false] {
        let layer = S5 { associative, dtype: DType::F64, ..S5::new(features, states) }.layer().unwrap();
        let arguments = arguments(&layer, &[batch, time, features], batch);
        let results = evaluate(&layer.graph, &arguments).unwrap();
        let at = |argument: usize, index: &[usize]| arguments[argument].at(index).as_f64();
        let multiply = |a: (f64, f64), b: (f64, f64)| (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0);
        let (mut ys, mut last) = (Vec::new(), [Vec::new(), Vec::new()]);
        for b in 0..batch {
            let mut x: Vec<(f64, f64)> = (0..states).map(|p| (at(1, &[b, p]), at(2, &[b, p]))).collect();
            for t in 0..time {
                for (p, x) in x.iter_mut().enumerate() {
                    let (re, im, step) = (at(3, &[p]), at(4, &[p]), at(8, &[p, 0]).exp());
                    let rate = ((re * step).exp() * (im * step).cos(), (re * step).exp() * (im * step).sin());
                    let norm = re * re + im * im;
                    let gain = multiply((rate.0 - 1.0, rate.1), (re / norm, -im / norm));
                    let input = (0..features).fold((0.0, 0.0), |sum, h| {
                        let (u, b) = (at(0, &[b, t, h]), (at(5, &[p, h, 0]), at(5, &[p, h, 1])));
                        (sum.0 + u * b.0, sum.1 + u * b.1)
                    });
                    let (moved, driven) = (multiply(rate, *x), multiply(gain, input));
                    *x = (moved.0 + driven.0, moved.1 + driven.1);
                }
                for h in 0..features {
                    let sum: f64 =
                        x.iter().enumerate().map(|(p, x)| multiply((at(6, &[h, p, 0]), at(6, &[h, p, 1])), *x).0).sum();
                    ys.push(2.0 * sum + at(7, &[h]) * at(0, &[b, t, h]));
                }
            }
            last[0].extend(x.iter().map(|x| x.0));
            last[1].extend(x.iter().map(|x| x.1));
        }
        assert_close(&results[0], &ys);
        assert_close(&results[1], &last[0]);
        assert_close(&results[2], &last[1]);
    }
}

#[test]
fn selective_scans_choose_steps_by_their_input() {
    let (time, features, states, rank) = (4, 3, 2, 2);
    let options = SelectiveScan { states, rank, dtype: DType::F64, ..SelectiveScan::new(features) };
    let layer = options.layer().unwrap();
    let arguments = arguments(&layer, &[1, time, features], 1);
    let results = evaluate(&layer.graph, &arguments).unwrap();
    let at = |argument: usize, index: &[usize]| arguments[argument].at(index).as_f64();
    let mut state: Vec<Vec<f64>> = (0..features).map(|d| (0..states).map(|n| at(1, &[0, d, n])).collect()).collect();
    let mut ys = Vec::new();
    for t in 0..time {
        let u: Vec<f64> = (0..features).map(|d| at(0, &[0, t, d])).collect();
        let zeros = HostTensor::zeros(DType::F64, &[rank + 2 * states]);
        let projected = affine(&arguments[2], &u, &zeros);
        let delta: Vec<f64> =
            affine(&arguments[3], &projected[..rank], &arguments[4]).into_iter().map(|x| x.exp().ln_1p()).collect();
        for d in 0..features {
            let mut y = at(6, &[d]) * u[d];
            for n in 0..states {
                let decay = (-delta[d] * at(5, &[d, n]).exp()).exp();
                state[d][n] = decay * state[d][n] + delta[d] * projected[rank + n] * u[d];
                y += state[d][n] * projected[rank + states + n];
            }
            ys.push(y);
        }
    }
    assert_close(&results[0], &ys);
    assert_close(&results[1], &state.concat());
}

/// Checks that the output of the recurrence equals a sum over the current and all earlier steps: `o = Σ q·(Π α) k v`.
#[test]
fn gated_attention_is_a_sum_over_earlier_steps() {
    let (time, features, heads, key, value, rank) = (4, 4, 2, 2, 4, 3);
    let options =
        GatedLinearAttention { key, value, rank, dtype: DType::F64, ..GatedLinearAttention::new(features, heads) };
    let layer = options.layer().unwrap();
    let mut arguments = arguments(&layer, &[1, time, features], 1);
    arguments[1] = HostTensor::zeros(DType::F64, arguments[1].shape());
    let results = evaluate(&layer.graph, &arguments).unwrap();
    let names: Vec<&str> = layer.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    let weight = |name: &str| &arguments[2 + names.iter().position(|other| *other == name).unwrap()];
    let none = HostTensor::zeros(DType::F64, &[8]);
    let x = |t: usize| -> Vec<f64> { (0..features).map(|i| arguments[0].at(&[0, t, i]).as_f64()).collect() };
    let of = |name: &str, t: usize| affine(weight(name), &x(t), &none);
    let gate = |t: usize| -> Vec<f64> {
        let narrow = of("gk_proj.0.weight", t);
        let wide = affine(weight("gk_proj.1.weight"), &narrow, weight("gk_proj.1.bias"));
        wide.into_iter().map(|x| sigmoid(x).powf(1.0 / 16.0)).collect()
    };
    let (dk, dv) = (key / heads, value / heads);
    let mut ys = Vec::new();
    for t in 0..time {
        let mut gated = Vec::new();
        for head in 0..heads {
            let mut o = vec![0.0; dv];
            for s in 0..=t {
                let decay = |i: usize| (s + 1..=t).map(|later| gate(later)[head * dk + i]).product::<f64>();
                let at = |name: &str, t: usize, i: usize| of(name, t)[head * dk + i];
                let score: f64 =
                    (0..dk).map(|i| at("q_proj.weight", t, i) * decay(i) * at("k_proj.weight", s, i)).sum();
                let v = of("v_proj.weight", s);
                o.iter_mut().enumerate().for_each(|(j, o)| *o += score / (dk as f64).sqrt() * v[head * dv + j]);
            }
            let norm = (o.iter().map(|o| o * o).sum::<f64>() / dv as f64 + 1e-5).sqrt();
            let swish = of("g_proj.weight", t);
            let scale = weight("g_norm_swish_gate.weight").to_f64_vec();
            gated.extend((0..dv).map(|j| {
                let g = swish[head * dv + j];
                o[j] / norm * scale[j] * g * sigmoid(g)
            }));
        }
        ys.extend(affine(weight("o_proj.weight"), &gated, &none));
    }
    assert_close(&results[0], &ys);
}

#[test]
fn a_sequence_in_two_parts_is_the_sequence() {
    let f64s = DType::F64;
    let layers = [
        Recurrent { dtype: f64s, layers: 2, ..Recurrent::new(Cell::Lstm, 2, 3) }.layer(),
        S5 { dtype: f64s, ..S5::new(2, 3) }.layer(),
        SelectiveScan { dtype: f64s, states: 2, ..SelectiveScan::new(2) }.layer(),
        GatedLinearAttention { dtype: f64s, rank: 2, ..GatedLinearAttention::new(2, 1) }.layer(),
    ];
    for layer in layers {
        let layer = layer.unwrap();
        let mut arguments = arguments(&layer, &[1, 5, 2], 1);
        let whole = evaluate(&layer.graph, &arguments).unwrap();
        let rows = arguments[0].to_f64_vec();
        let part = |rows: &[f64]| HostTensor::from_vec(rows.to_vec(), [1, rows.len() / 2, 2]).unwrap();
        arguments[0] = part(&rows[..6]);
        let first = evaluate(&layer.graph, &arguments).unwrap();
        arguments[0] = part(&rows[6..]);
        arguments[1..first.len()].clone_from_slice(&first[1..]);
        let second = evaluate(&layer.graph, &arguments).unwrap();
        let ys = [first[0].to_f64_vec(), second[0].to_f64_vec()].concat();
        assert_close(&whole[0], &ys);
        for (whole, second) in whole[1..].iter().zip(&second[1..]) {
            assert_close(whole, &second.to_f64_vec());
        }
    }
}

#[test]
fn what_makes_no_layer_is_refused() {
    let errors = [
        Recurrent { hidden: 0, ..Recurrent::new(Cell::Gru, 2, 1) }.layer(),
        Recurrent { dtype: DType::I32, ..Recurrent::new(Cell::Gru, 2, 1) }.layer(),
        S5::new(2, 0).layer(),
        GatedLinearAttention::new(6, 4).layer(),
    ];
    for (error, component) in errors.into_iter().zip(["`hidden`", "the dtype", "`states`", "`key`"]) {
        let error = error.unwrap_err().to_string();
        assert!(error.contains(component) && error.contains("funcify-nn/src/tests.rs"), "{error}");
    }
}
