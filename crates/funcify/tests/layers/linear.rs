//! Compares linear recurrences and linear attention layers, in sequential, parallel and chunked form, with plain scalar
//! loops. Also checks their single-step programs, and compares their gradients with finite differences.

use std::collections::HashMap;

use funcify::nn::*;
use funcify::{DType, Dim, GradOptions, Graph, HostTensor, Scalar, Value, evaluate};

use super::stepping::{check, noise};

pub(super) const F64: DType = DType::F64;

/// The values of a layer's inputs, in order and keyed by name.
pub(super) struct LayerInputs {
    named: HashMap<String, HostTensor>,
    arguments: Vec<HostTensor>,
}

/// Builds values for a layer's inputs: a sequence of shape `[1, steps, features]`, the states and the parameters.
pub(super) fn build_inputs(layer: &Layer, steps: usize) -> LayerInputs {
    let graph = &layer.graph;
    let mut arguments = Vec::new();
    for index in 0..graph.inputs().len() {
        let size = |dim: &Dim| dim.constant().map_or(1, |size| size as usize);
        let mut shape: Vec<usize> = graph.input_type(index).shape.dims().iter().map(size).collect();
        if index == 0 {
            shape[1] = steps;
        }
        arguments.push(noise(F64, &shape, 11 + index as u64));
    }
    let named = (0..arguments.len()).map(|index| (graph.input_name(index).to_string(), arguments[index].clone()));
    LayerInputs { named: named.collect(), arguments }
}

impl LayerInputs {
    pub(super) fn of(&self, name: &str) -> Vec<f64> {
        self.named[name].to_f64_vec()
    }

    /// Computes `W x`, where `W` is the weight matrix with this name, of shape `[to, from]`.
    pub(super) fn product(&self, name: &str, x: &[f64]) -> Vec<f64> {
        self.of(name).chunks(x.len()).map(|row| row.iter().zip(x).map(|(w, x)| w * x).sum()).collect()
    }

    pub(super) fn affine(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let product = self.product(&format!("{name}_weight"), x);
        product.iter().zip(self.of(&format!("{name}_bias"))).map(|(x, bias)| x + bias).collect()
    }

    pub(super) fn rows(&self) -> Vec<Vec<f64>> {
        let xs = &self.named["xs"];
        xs.to_f64_vec().chunks(xs.shape()[2]).map(<[f64]>::to_vec).collect()
    }

    /// Computes a causal convolution of `rows`. The input named `before` contains the rows that precede them. `kernel`
    /// returns the weight for a feature and a tap.
    pub(super) fn convolve(
        &self,
        before: &str,
        rows: &[Vec<f64>],
        kernel: impl Fn(usize, usize) -> f64,
    ) -> Vec<Vec<f64>> {
        let size = rows[0].len();
        let mut all: Vec<Vec<f64>> = self.of(before).chunks(size).map(<[f64]>::to_vec).collect();
        let width = all.len() + 1;
        all.extend_from_slice(rows);
        let of = |t: usize, i: usize| (0..width).map(|k| kernel(i, k) * all[t + k][i]).sum::<f64>();
        (0..rows.len()).map(|t| (0..size).map(|i| of(t, i)).collect()).collect()
    }
}

pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

pub(super) fn silu(x: f64) -> f64 {
    x * sigmoid(x)
}

pub(super) fn softplus(x: f64) -> f64 {
    x.exp().ln_1p()
}

/// Divides a vector by its root mean square.
fn divide_by_rms(x: &[f64]) -> Vec<f64> {
    let norm = (x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64 + 1e-5).sqrt();
    x.iter().map(|x| x / norm).collect()
}

fn assert_close(found: &HostTensor, expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.to_f64_vec().iter().zip(expected) {
        assert!((found - expected).abs() < 1e-11 * expected.abs().max(1.0), "{found} is not {expected}");
    }
}

/// Checks that the layer returns the `expected` outputs and final states, in this order. Also checks its gradients and,
/// if its number of steps is the symbol `T`, its single-step program.
pub(super) fn assert_agrees(layer: &Layer, steps: usize, expected: &[Vec<f64>]) {
    let numbers = build_inputs(layer, steps);
    let results = evaluate(&layer.graph, &numbers.arguments).unwrap();
    assert_eq!(results.len(), expected.len());
    results.iter().zip(expected).for_each(|(found, expected)| assert_close(found, expected));
    assert_gradients_agree(layer, &numbers.arguments);
    if layer.graph.input_type(0).shape[1] == Dim::from("T") {
        check(&layer.graph);
    }
}

/// Compares a directional derivative, computed from the gradients, with a finite difference. The differentiated
/// function is a sum of sines of all outputs.
fn assert_gradients_agree(layer: &Layer, at: &[HostTensor]) {
    let loss = Graph::build("loss", |g| {
        let graph = &layer.graph;
        let inputs: Vec<Value> =
            (0..graph.inputs().len()).map(|index| g.input(graph.input_name(index), at[index].ty())).collect();
        let sums = graph.apply(&inputs).into_iter().map(|output| (output * 3.0).sin().sum(..));
        sums.reduce(|sum, next| sum + next)
    });
    let loss = loss.unwrap();
    let gradients = evaluate(&loss.grad(.., GradOptions::new()).unwrap(), at).unwrap();
    let directions: Vec<HostTensor> =
        at.iter().enumerate().map(|(index, tensor)| noise(F64, tensor.shape(), 77 + index as u64)).collect();
    let moved = |by: f64| {
        let along = |(x, d): (&HostTensor, &HostTensor)| {
            HostTensor::from_fn(F64, x.shape(), |index| Scalar::Float(x.at(index).as_f64() + by * d.at(index).as_f64()))
        };
        evaluate(&loss, &at.iter().zip(&directions).map(along).collect::<Vec<_>>()).unwrap()[0].to_f64_vec()[0]
    };
    let h = 1e-6;
    let difference = (moved(h) - moved(-h)) / (2.0 * h);
    let dot = |(gradient, direction): (&HostTensor, &HostTensor)| -> f64 {
        gradient.to_f64_vec().iter().zip(direction.to_f64_vec()).map(|(g, d)| g * d).sum()
    };
    let slope: f64 = gradients.iter().zip(&directions).map(dot).sum();
    assert!((slope - difference).abs() < 1e-6 * slope.abs().max(1.0), "{slope} is not {difference}");
    assert!(gradients.iter().all(|gradient| gradient.to_f64_vec().iter().any(|g| *g != 0.0)));
}

#[test]
fn minimal_cells() {
    for (cell, associative) in
        [MinimalCell::Gru, MinimalCell::Lstm].into_iter().flat_map(|cell| [(cell, false), (cell, true)])
    {
        let layer = Minimal { dtype: F64, associative, ..Minimal::new(cell, 2, 3) }.layer().unwrap();
        let of = build_inputs(&layer, 5);
        let mut h = of.of("h");
        let mut ys = Vec::new();
        for x in of.rows() {
            let gate = |name: &str| -> Vec<f64> { of.affine(name, &x).into_iter().map(sigmoid).collect() };
            let added = of.affine("linear_h", &x);
            for i in 0..3 {
                h[i] = match cell {
                    MinimalCell::Gru => (1.0 - gate("linear_z")[i]) * h[i] + gate("linear_z")[i] * added[i],
                    MinimalCell::Lstm => {
                        let (f, i_gate) = (gate("linear_f")[i], gate("linear_i")[i]);
                        (f * h[i] + i_gate * added[i]) / (f + i_gate)
                    }
                };
            }
            ys.extend_from_slice(&h);
        }
        assert_agrees(&layer, 5, &[ys, h]);
    }
}

#[test]
fn lru() {
    for associative in [false, true] {
        let layer = Lru { dtype: F64, associative, ..Lru::new(2, 3) }.layer().unwrap();
        let of = build_inputs(&layer, 5);
        let [mut re, mut im] = ["state_re", "state_im"].map(|name| of.of(name));
        let [nu, theta, gamma, d] = ["nu_log", "theta_log", "gamma_log", "D"].map(|name| of.of(name));
        let mut ys = Vec::new();
        for u in of.rows() {
            let (b_re, b_im) = (of.product("B_re", &u), of.product("B_im", &u));
            for i in 0..3 {
                let (magnitude, phase) = ((-nu[i].exp()).exp(), theta[i].exp());
                let (a, b) = (magnitude * phase.cos(), magnitude * phase.sin());
                let next = a * re[i] - b * im[i] + gamma[i].exp() * b_re[i];
                im[i] = a * im[i] + b * re[i] + gamma[i].exp() * b_im[i];
                re[i] = next;
            }
            let (c_re, c_im) = (of.product("C_re", &re), of.product("C_im", &im));
            ys.extend((0..2).map(|i| c_re[i] - c_im[i] + d[i] * u[i]));
        }
        assert_agrees(&layer, 5, &[ys, re, im]);
        // The magnitudes of all initial eigenvalues are between 0.9 and 0.999.
        let of = |name: &str| match &layer.parameters.iter().find(|parameter| parameter.name == name).unwrap().init {
            Init::Values(values) => values.to_f64_vec(),
            other => panic!("{other:?}"),
        };
        for (nu, gamma) in of("nu_log").iter().zip(of("gamma_log")) {
            let magnitude = (-nu.exp()).exp();
            assert!(magnitude > 0.9 && magnitude < 0.999);
            assert!((gamma.exp().powi(2) + magnitude * magnitude - 1.0).abs() < 1e-12);
        }
    }
}

#[test]
fn rg_lru() {
    for associative in [false, true] {
        let layer = RgLru { dtype: F64, associative, width: 3, ..RgLru::new(4, 2) }.layer().unwrap();
        let of = build_inputs(&layer, 5);
        let (kernel, bias) = (of.of("conv_1d_w"), of.of("conv_1d_b"));
        let us = of.convolve("conv", &of.rows(), |i, k| kernel[4 * k + i]);
        let mut h = of.of("h");
        let mut ys = Vec::new();
        for u in &us {
            let u: Vec<f64> = u.iter().zip(&bias).map(|(u, bias)| u + bias).collect();
            let gate = |name: &str, i: usize| {
                let (w, b) = (of.of(&format!("rg_lru_{name}_w")), of.of(&format!("rg_lru_{name}_b")));
                let head = i / 2;
                sigmoid((0..2).map(|j| u[2 * head + j] * w[4 * head + 2 * j + i % 2]).sum::<f64>() + b[i])
            };
            for i in 0..4 {
                let a = (-8.0 * gate("a_gate", i) * softplus(of.of("rg_lru_a_param")[i])).exp();
                h[i] = a * h[i] + (1.0 - a * a).sqrt() * gate("input_gate", i) * u[i];
            }
            ys.extend_from_slice(&h);
        }
        let last = of.rows()[3..].concat();
        assert_agrees(&layer, 5, &[ys, h, last]);
    }
}

#[test]
fn mamba2_in_steps_and_in_chunks() {
    let (heads, head, states, groups) = (4, 2, 3, 2);
    let options = Mamba2 { dtype: F64, heads, head, states, groups, width: 3, ..Mamba2::new(2) };
    let (inner, mixed) = (heads * head, heads * head + 2 * groups * states);
    for chunk in [None, Some(1), Some(3), Some(6)] {
        let layer = Mamba2 { chunk, ..options.clone() }.layer().unwrap();
        let of = build_inputs(&layer, 6);
        let projected: Vec<Vec<f64>> = of.rows().iter().map(|u| of.product("in_proj_weight", u)).collect();
        let driven: Vec<Vec<f64>> = projected.iter().map(|row| row[inner..inner + mixed].to_vec()).collect();
        let (kernel, bias) = (of.of("conv1d_weight"), of.of("conv1d_bias"));
        let convolved = of.convolve("conv", &driven, |i, k| kernel[3 * i + k]);
        let mut h = of.of("ssm");
        let mut ys = Vec::new();
        for (row, mixed) in projected.iter().zip(&convolved) {
            let mixed: Vec<f64> = mixed.iter().zip(&bias).map(|(x, bias)| silu(x + bias)).collect();
            let mut y = vec![0.0; inner];
            for n in 0..heads {
                let delta = softplus(row[inner + driven[0].len() + n] + of.of("dt_bias")[n]);
                let decay = (-delta * of.of("A_log")[n].exp()).exp();
                let group = n / (heads / groups);
                for p in 0..head {
                    let x = mixed[n * head + p];
                    y[n * head + p] = of.of("D")[n] * x;
                    for s in 0..states {
                        let (b, c) = (inner + group * states + s, inner + (groups + group) * states + s);
                        let h = &mut h[(n * head + p) * states + s];
                        *h = decay * *h + delta * x * mixed[b];
                        y[n * head + p] += *h * mixed[c];
                    }
                }
            }
            let gated: Vec<f64> = y.iter().zip(row).map(|(y, z)| y * silu(*z)).collect();
            let normed = gated.chunks(inner / groups).flat_map(divide_by_rms);
            let scaled: Vec<f64> = normed.zip(of.of("norm_weight")).map(|(y, scale)| y * scale).collect();
            ys.extend(of.product("out_proj_weight", &scaled));
        }
        assert_agrees(&layer, 6, &[ys, h, driven[4..].concat()]);
    }
}

#[test]
fn delta_nets() {
    let (features, heads, key, value) = (4, 2, 4, 6);
    for (gated, negative) in [(false, false), (false, true), (true, false), (true, true)] {
        let options = DeltaNet { dtype: F64, key, value, gated, negative, width: 3, ..DeltaNet::new(features, heads) };
        let layer = options.layer().unwrap();
        let of = build_inputs(&layer, 5);
        let (dk, dv) = (key / heads, value / heads);
        let xs = of.rows();
        let projected = |name: &str| -> Vec<Vec<f64>> {
            xs.iter().map(|x| of.product(&format!("{name}_proj_weight"), x)).collect()
        };
        let convolved = |name: &str| {
            let kernel = of.of(&format!("{name}_conv1d_weight"));
            let rows = of.convolve(&format!("conv_{name}"), &projected(name), |i, k| kernel[3 * i + k]);
            rows.into_iter().map(|row| row.into_iter().map(silu).collect::<Vec<f64>>()).collect::<Vec<_>>()
        };
        let (q, k, v) = (convolved("q"), convolved("k"), convolved("v"));
        let mut memory = of.of("memory");
        let mut ys = Vec::new();
        for (t, x) in xs.iter().enumerate() {
            let mut o = vec![0.0; value];
            for head in 0..heads {
                let unit = |x: &[f64]| -> Vec<f64> {
                    let x = &x[head * dk..(head + 1) * dk];
                    let norm = (x.iter().map(|x| x * x).sum::<f64>() + 1e-6).sqrt();
                    x.iter().map(|x| x / norm).collect()
                };
                let (q, k) = (unit(&q[t]), unit(&k[t]));
                let beta = sigmoid(of.product("b_proj_weight", x)[head]) * if negative { 2.0 } else { 1.0 };
                let s = &mut memory[head * dk * dv..(head + 1) * dk * dv];
                if gated {
                    let delta = softplus(of.product("a_proj_weight", x)[head] + of.of("dt_bias")[head]);
                    s.iter_mut().for_each(|s| *s *= (-of.of("A_log")[head].exp() * delta).exp());
                }
                for j in 0..dv {
                    let known: f64 = (0..dk).map(|i| k[i] * s[i * dv + j]).sum();
                    (0..dk).for_each(|i| s[i * dv + j] += k[i] * beta * (v[t][head * dv + j] - known));
                    o[head * dv + j] = (0..dk).map(|i| q[i] * s[i * dv + j]).sum::<f64>() / (dk as f64).sqrt();
                }
            }
            let scale = of.of("o_norm_weight");
            let mut y: Vec<f64> =
                o.chunks(dv).flat_map(divide_by_rms).enumerate().map(|(i, y)| y * scale[i % dv]).collect();
            if gated {
                y.iter_mut().zip(of.product("g_proj_weight", x)).for_each(|(y, g)| *y *= silu(g));
            }
            ys.extend(of.product("o_proj_weight", &y));
        }
        let lasts = ["q", "k", "v"].map(|name| projected(name)[3..].concat());
        assert_agrees(&layer, 5, &[[vec![ys, memory], lasts.to_vec()].concat()].concat());
    }
}

#[test]
fn rwkv() {
    let (features, heads, size) = (4, 2, 2);
    for version in [RwkvVersion::Five, RwkvVersion::Six { mix_rank: 2, decay_rank: 3 }] {
        let layer = Rwkv { dtype: F64, version, ..Rwkv::new(features, heads) }.layer().unwrap();
        let of = build_inputs(&layer, 4);
        // Computes `x W` for a weight matrix `W` of shape `[from, to]`.
        let times = |x: &[f64], w: &[f64]| -> Vec<f64> {
            let to = w.len() / x.len();
            (0..to).map(|j| x.iter().enumerate().map(|(i, x)| x * w[i * to + j]).sum()).collect()
        };
        let mut before = of.of("shift");
        let mut memory = of.of("memory");
        let mut ys = Vec::new();
        for x in of.rows() {
            let mixed = |number: usize, name: &str| -> Vec<f64> {
                let share: Vec<f64> = if version == RwkvVersion::Five {
                    of.of(&format!("time_mix_{name}")).iter().map(|share| 1.0 - share).collect()
                } else {
                    let coarse = of.of("time_maa_x");
                    let coarse: Vec<f64> = (0..4).map(|i| x[i] + (before[i] - x[i]) * coarse[i]).collect();
                    let narrow: Vec<f64> = times(&coarse, &of.of("time_maa_w1")).into_iter().map(f64::tanh).collect();
                    let wide =
                        times(&narrow[2 * number..2 * number + 2], &of.of("time_maa_w2")[8 * number..8 * number + 8]);
                    of.of(&format!("time_maa_{name}")).iter().zip(wide).map(|(share, more)| share + more).collect()
                };
                (0..4).map(|i| x[i] + (before[i] - x[i]) * share[i]).collect()
            };
            let decay = of.of("time_decay");
            let decay: Vec<f64> = if version == RwkvVersion::Five {
                decay
            } else {
                let narrow = times(&mixed(0, "w"), &of.of("time_decay_w1"));
                let narrow: Vec<f64> = narrow.into_iter().map(f64::tanh).collect();
                decay.iter().zip(times(&narrow, &of.of("time_decay_w2"))).map(|(d, more)| d + more).collect()
            };
            let k = of.product("key_weight", &mixed(1, "k"));
            let v = of.product("value_weight", &mixed(2, "v"));
            let r = of.product("receptance_weight", &mixed(3, "r"));
            let g = of.product("gate_weight", &mixed(4, "g"));
            let mut normal = Vec::new();
            for head in 0..heads {
                let mut o = vec![0.0; size];
                for i in 0..size {
                    let at = head * size + i;
                    for j in 0..size {
                        let s = &mut memory[at * size + j];
                        let written = k[at] * v[head * size + j];
                        o[j] += r[at] * (*s + of.of("time_faaaa")[at] * written);
                        *s = (-decay[at].exp()).exp() * *s + written;
                    }
                }
                let mean = o.iter().sum::<f64>() / size as f64;
                let variance = o.iter().map(|o| (o - mean).powi(2)).sum::<f64>() / size as f64;
                normal.extend(o.iter().map(|o| (o - mean) / (variance + 64e-5).sqrt()));
            }
            let (scale, bias) = (of.of("ln_x_weight"), of.of("ln_x_bias"));
            let gated: Vec<f64> = (0..4).map(|i| (normal[i] * scale[i] + bias[i]) * silu(g[i])).collect();
            ys.extend(of.product("output_weight", &gated));
            before = x;
        }
        assert_agrees(&layer, 4, &[ys, before, memory]);
    }
}

/// Compares the layer with its unstabilised definition. The layer's memories are the unstabilised memories times
/// `exp(-m)`, where `m` is the stabiliser.
#[test]
fn slstm() {
    let layer = Xlstm { dtype: F64, heads: 2, ..Xlstm::new(XlstmCell::Slstm, 3, 4) }.layer().unwrap();
    let of = build_inputs(&layer, 4);
    let [mut h, c, n, m] = ["h", "c", "n", "m"].map(|name| of.of(name));
    let unscaled = |x: Vec<f64>| -> Vec<f64> { x.iter().zip(&m).map(|(x, m)| x * m.exp()).collect() };
    let (mut c, mut n, mut last) = (unscaled(c), unscaled(n), m.clone());
    let (bias, recurrent) = (of.of("bias"), of.of("recurrent"));
    let mut ys = Vec::new();
    for x in of.rows() {
        let of_input = of.product("weight", &x);
        let before = h.clone();
        let gate = |gate: usize, i: usize| {
            let (head, place) = (i / 2, i % 2);
            let of_state: f64 =
                (0..2).map(|j| before[2 * head + j] * recurrent[(head * 2 + j) * 8 + 2 * gate + place]).sum();
            of_input[4 * gate + i] + bias[4 * gate + i] + of_state
        };
        for i in 0..4 {
            c[i] = sigmoid(gate(1, i)) * c[i] + gate(0, i).exp() * gate(2, i).tanh();
            n[i] = sigmoid(gate(1, i)) * n[i] + gate(0, i).exp();
            h[i] = sigmoid(gate(3, i)) * c[i] / n[i];
            last[i] = (sigmoid(gate(1, i)).ln() + last[i]).max(gate(0, i));
        }
        ys.extend_from_slice(&h);
    }
    let scaled = |x: Vec<f64>| -> Vec<f64> { x.iter().zip(&last).map(|(x, m)| x * (-m).exp()).collect() };
    let (c, n) = (scaled(c), scaled(n));
    assert_agrees(&layer, 4, &[ys, h, c, n, last]);
}

#[test]
fn mlstm() {
    let (heads, size) = (2, 2);
    let layer = Xlstm { dtype: F64, heads, ..Xlstm::new(XlstmCell::Mlstm, 3, heads * size) }.layer().unwrap();
    let of = build_inputs(&layer, 4);
    let (mut memory, mut n, mut m) = (of.of("memory"), of.of("n"), of.of("m"));
    for head in 0..heads {
        memory[head * 4..(head + 1) * 4].iter_mut().for_each(|x| *x *= m[head].exp());
        n[head * 2..(head + 1) * 2].iter_mut().for_each(|x| *x *= m[head].exp());
    }
    let mut ys = Vec::new();
    for x in of.rows() {
        let [q, k, v, o] = ["q", "k", "v", "o"].map(|name| of.affine(name, &x));
        let [i, f] = ["i", "f"].map(|name| of.affine(name, &x));
        for head in 0..heads {
            let k: Vec<f64> = k[head * size..(head + 1) * size].iter().map(|k| k / (size as f64).sqrt()).collect();
            for (row, k) in k.iter().enumerate() {
                let at = head * size + row;
                n[at] = sigmoid(f[head]) * n[at] + i[head].exp() * k;
                for column in 0..size {
                    let s = &mut memory[at * size + column];
                    *s = sigmoid(f[head]) * *s + i[head].exp() * k * v[head * size + column];
                }
            }
            m[head] = (sigmoid(f[head]).ln() + m[head]).max(i[head]);
            let norm = (0..size).map(|row| n[head * size + row] * q[head * size + row]).sum::<f64>().abs().max(1.0);
            for column in 0..size {
                let read = |row: usize| q[head * size + row] * memory[(head * size + row) * size + column];
                ys.push(sigmoid(o[head * size + column]) * (0..size).map(read).sum::<f64>() / norm);
            }
        }
    }
    for head in 0..heads {
        memory[head * 4..(head + 1) * 4].iter_mut().for_each(|x| *x *= (-m[head]).exp());
        n[head * 2..(head + 1) * 2].iter_mut().for_each(|x| *x *= (-m[head]).exp());
    }
    assert_agrees(&layer, 4, &[ys, memory, n, m]);
}

#[test]
fn what_makes_no_linear_layer_is_refused() {
    let errors = [
        Minimal::new(MinimalCell::Lstm, 0, 1).layer(),
        Lru::new(2, 0).layer(),
        RgLru { width: 0, ..RgLru::new(2, 1) }.layer(),
        RgLru::new(3, 2).layer(),
        Mamba2 { groups: 2, ..Mamba2::new(4) }.layer(),
        Mamba2::new(0).layer(),
        DeltaNet { value: 3, ..DeltaNet::new(2, 2) }.layer(),
        Rwkv::new(3, 2).layer(),
        Xlstm { heads: 3, ..Xlstm::new(XlstmCell::Mlstm, 2, 4) }.layer(),
    ];
    let components =
        ["`input`", "`states`", "`width`", "`features`", "`heads`", "`features`", "`value`", "`features`", "`hidden`"];
    for (error, component) in errors.into_iter().zip(components) {
        let error = error.unwrap_err().to_string();
        assert!(error.contains(component) && error.contains("layers/linear.rs"), "{error}");
    }
}
