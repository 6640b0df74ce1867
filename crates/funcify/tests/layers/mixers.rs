//! Compares the sequence mixers of published pretrained models with plain scalar loops. Also checks their single-step
//! programs, and compares their gradients with finite differences.

use funcify::nn::*;

use super::linear::{F64, LayerInputs, assert_agrees, build_inputs, sigmoid, silu, softplus};

/// Applies the linear map with this name, including its bias, to each row.
fn affine(of: &LayerInputs, name: &str, rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    rows.iter().map(|row| of.affine(name, row)).collect()
}

/// Shifts and scales a vector to mean 0 and variance 1.
fn standardise(x: &[f64], epsilon: f64) -> Vec<f64> {
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
    x.iter().map(|x| (x - mean) / (variance + epsilon).sqrt()).collect()
}

#[test]
fn mamba() {
    let (inner, states, rank) = (4, 3, 2);
    let layer = Mamba { dtype: F64, inner, states, rank, width: 3, ..Mamba::new(3) }.layer().unwrap();
    let of = build_inputs(&layer, 5);
    let projected: Vec<Vec<f64>> = of.rows().iter().map(|u| of.product("in_proj_weight", u)).collect();
    let driven: Vec<Vec<f64>> = projected.iter().map(|row| row[..inner].to_vec()).collect();
    let (kernel, bias) = (of.of("conv1d_weight"), of.of("conv1d_bias"));
    let convolved = of.convolve("conv", &driven, |i, k| kernel[3 * i + k]);
    let (mut h, mut ys) = (of.of("ssm"), Vec::new());
    for (row, convolved) in projected.iter().zip(convolved) {
        let x: Vec<f64> = convolved.iter().zip(&bias).map(|(x, bias)| silu(x + bias)).collect();
        let maps = of.product("x_proj_weight", &x);
        let delta: Vec<f64> = of.affine("dt_proj", &maps[..rank]).into_iter().map(softplus).collect();
        let mut y = vec![0.0; inner];
        for i in 0..inner {
            for s in 0..states {
                let h = &mut h[i * states + s];
                *h = (-delta[i] * of.of("A_log")[i * states + s].exp()).exp() * *h + delta[i] * maps[rank + s] * x[i];
                y[i] += *h * maps[rank + states + s];
            }
            y[i] = (y[i] + of.of("D")[i] * x[i]) * silu(row[inner + i]);
        }
        ys.extend(of.product("out_proj_weight", &y));
    }
    assert_agrees(&layer, 5, &[ys, h, driven[3..].concat()]);
}

#[test]
fn griffin() {
    let (inner, heads, size) = (4, 2, 2);
    for associative in [false, true] {
        let layer = Griffin { dtype: F64, associative, inner, width: 3, ..Griffin::new(3, heads) }.layer().unwrap();
        let of = build_inputs(&layer, 5);
        let driven = affine(&of, "linear_x", &of.rows());
        let (kernel, bias) = (of.of("conv_1d_weight"), of.of("conv_1d_bias"));
        let convolved = of.convolve("conv", &driven, |i, k| kernel[3 * i + k]);
        let (mut h, mut ys) = (of.of("h"), Vec::new());
        for (t, (x, row)) in of.rows().iter().zip(convolved).enumerate() {
            let u: Vec<f64> = row.iter().zip(&bias).map(|(u, bias)| u + bias).collect();
            let gate = |name: &str, i: usize| {
                let weight = of.of(&format!("rg_lru_{name}_weight"));
                let of_head =
                    (0..size).map(|j| u[i / size * size + j] * weight[(i / size * size + j) * size + i % size]);
                sigmoid(of_head.sum::<f64>() + of.of(&format!("rg_lru_{name}_bias"))[i])
            };
            // Normally, `going_on` is 0 in the first step of a sequence and 1 in all later steps. In this test, the
            // value for the first step comes from the input `started`.
            let going_on = if t == 0 { of.of("started")[0] } else { 1.0 };
            let y: Vec<f64> = (0..inner)
                .map(|i| {
                    let rate = softplus(of.of("rg_lru_recurrent_param")[i]);
                    let a = (-8.0 * gate("recurrent_gate", i) * rate).exp();
                    let factor = going_on * (1.0 - a * a).sqrt() + 1.0 - going_on;
                    h[i] = going_on * a * h[i] + factor * gate("input_gate", i) * u[i];
                    let y = of.affine("linear_y", x)[i];
                    let inside = (2.0 / std::f64::consts::PI).sqrt() * (y + 0.044715 * y.powi(3));
                    h[i] * 0.5 * y * (1.0 + inside.tanh())
                })
                .collect();
            ys.extend(of.affine("linear_out", &y));
        }
        assert_agrees(&layer, 5, &[ys, h, driven[3..].concat(), vec![1.0]]);
    }
}

/// Compares the layer with its unstabilised definition. The layer's sums are the unstabilised sums times `exp(-max)`,
/// where `max` is the stabiliser.
#[test]
fn rwkv4() {
    let inner = 4;
    let layer = Rwkv4 { dtype: F64, inner, ..Rwkv4::new(3) }.layer().unwrap();
    let of = build_inputs(&layer, 5);
    let (mut before, mut max) = (of.of("shift"), of.of("max"));
    let [mut num, mut den] =
        ["num", "den"].map(|name| of.of(name).iter().zip(&max).map(|(sum, max)| sum * max.exp()).collect::<Vec<f64>>());
    // The pseudorandom values have both signs, so check that no initial denominator is near 0.
    assert!(den.iter().all(|den| den.abs() > 0.05), "{den:?}");
    let mut ys = Vec::new();
    for x in of.rows() {
        let mixed = |name: &str| {
            let share = of.of(&format!("time_mix_{name}"));
            let mixed: Vec<f64> = (0..3).map(|i| x[i] * share[i] + before[i] * (1.0 - share[i])).collect();
            of.product(&format!("{name}_weight"), &mixed)
        };
        let [k, v, r] = ["key", "value", "receptance"].map(mixed);
        let mut y = vec![0.0; inner];
        for i in 0..inner {
            let new = (of.of("time_first")[i] + k[i]).exp();
            y[i] = sigmoid(r[i]) * (num[i] + new * v[i]) / (den[i] + new);
            let kept = (-of.of("time_decay")[i].exp()).exp();
            (num[i], den[i]) = (kept * num[i] + k[i].exp() * v[i], kept * den[i] + k[i].exp());
            max[i] = k[i].max(max[i] - of.of("time_decay")[i].exp());
        }
        ys.extend(of.product("output_weight", &y));
        before = x;
    }
    let scaled = |x: Vec<f64>| -> Vec<f64> { x.iter().zip(&max).map(|(x, max)| x * (-max).exp()).collect() };
    let (num, den) = (scaled(num), scaled(den));
    assert_agrees(&layer, 5, &[ys, before, num, den, max]);
}

/// Compares the layer with its unstabilised definition. The layer's memories are the unstabilised memories times
/// `exp(-m)`, where `m` is the stabiliser.
#[test]
fn xlstm_large() {
    let (heads, dk, dv, cap) = (2, 2, 3, 0.5);
    let options = XlstmLarge { dtype: F64, key: heads * dk, value: heads * dv, cap, ..XlstmLarge::new(3, heads) };
    let layer = options.layer().unwrap();
    let of = build_inputs(&layer, 4);
    let mut m = of.of("m");
    let unscaled = |name: &str, size: usize| -> Vec<f64> {
        of.of(name).iter().enumerate().map(|(index, x)| x * m[index / size].exp()).collect()
    };
    let (mut memory, mut n) = (unscaled("memory", dk * dv), unscaled("n", dk));
    let mut ys = Vec::new();
    for x in of.rows() {
        let [q, k, v, o] = ["q", "k", "v", "ogate_preact"].map(|name| of.product(&format!("{name}_weight"), &x));
        let [i, f] = ["igate_preact", "fgate_preact"].map(|name| of.affine(name, &x).into_iter());
        let [i, f] = [i, f].map(|gate| gate.map(|x| cap * (x / cap).tanh()).collect::<Vec<f64>>());
        let mut normal = Vec::new();
        for head in 0..heads {
            for row in 0..dk {
                let at = head * dk + row;
                n[at] = sigmoid(f[head]) * n[at] + i[head].exp() * k[at];
                for column in 0..dv {
                    let s = &mut memory[at * dv + column];
                    *s = sigmoid(f[head]) * *s + i[head].exp() * k[at] * v[head * dv + column];
                }
            }
            m[head] = (sigmoid(f[head]).ln() + m[head]).max(i[head]);
            let q: Vec<f64> = q[head * dk..(head + 1) * dk].iter().map(|q| q / (dk as f64).sqrt()).collect();
            // The layer divides by the stabilised norm. Here, `norm` is that norm times `exp(m)`.
            let norm =
                (0..dk).map(|row| n[head * dk + row] * q[row]).sum::<f64>().abs().max(1.0) + 1e-6 * m[head].exp();
            let read = |column: usize| (0..dk).map(|row| q[row] * memory[(head * dk + row) * dv + column]).sum::<f64>();
            normal.extend(standardise(&(0..dv).map(|column| read(column) / norm).collect::<Vec<f64>>(), 1e-6));
        }
        let scale = of.of("multihead_norm_weight");
        let gated: Vec<f64> = (0..heads * dv).map(|i| normal[i] * scale[i] * sigmoid(o[i])).collect();
        ys.extend(of.product("out_proj_weight", &gated));
    }
    let scaled = |x: Vec<f64>, size: usize| -> Vec<f64> {
        x.iter().enumerate().map(|(index, x)| x * (-m[index / size]).exp()).collect()
    };
    let (memory, n) = (scaled(memory, dk * dv), scaled(n, dk));
    assert_agrees(&layer, 4, &[ys, memory, n, m]);
}

#[test]
fn what_makes_no_mixer_is_refused() {
    let refused = [
        (Mamba { inner: 0, ..Mamba::new(2) }.layer(), "`inner`"),
        (Griffin { inner: 3, ..Griffin::new(2, 2) }.layer(), "`inner`"),
        (Rwkv4::new(0).layer(), "`features`"),
        (XlstmLarge { value: 3, ..XlstmLarge::new(4, 2) }.layer(), "`value`"),
    ];
    for (error, component) in refused {
        let error = error.unwrap_err().to_string();
        assert!(error.contains(component) && error.contains("layers/mixers.rs"), "{error}");
    }
}
