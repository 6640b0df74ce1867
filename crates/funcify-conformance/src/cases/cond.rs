//! Category `cond`: `cond` and `switch`.

use funcify::{DType, Value, cond, constant, full, iota, scan, scan_with, select, size, switch, vmap, while_loop};

use super::{Programs, carry_as_output, outputs, program, scan_outputs};

pub(super) const PROGRAMS: Programs = &[
    &program(&["cond_true", "cond_false"], ["pred", "x", "w"], |[pred, x, w]| {
        outputs! { y: cond(pred, || w * x.square(), || x.sin() + 1.0) }
    }),
    // The predicate depends on the data.
    &program(&["cond_on_data_true", "cond_on_data_false"], ["x", "w"], |[x, w]| {
        let one = full([0i64; 0], DType::I64, 1.0);
        let (y, k) = cond(x.sum(..).gt(0.0), || (x.matmul(w).tanh(), one), || (x.matmul(w) * 0.5, one + 1));
        outputs! { y, k }
    }),
    // The branches return several values.
    &program(&["cond_pytree_true", "cond_pytree_false"], ["pred", "x", "y"], |[pred, x, y]| {
        let (a, b, c) = cond(pred, || (x + y, x * y, x.sum(..)), || (x - y, x, y.sum(..).square()));
        outputs! { a, b, c }
    }),
    &program(&["cond_constant_branch"], ["x"], |[x]| {
        outputs! { y: cond(x.sum(..).gt(0.0), || x.square(), || x.zeros_like()) }
    }),
    // One branch returns a captured value unchanged.
    &program(&["cond_identity_branch"], ["x"], |[x]| {
        let y = cond(x.sum(..).gt(0.0), || x, || -x);
        outputs! { y, z: y * x }
    }),
    &program(&["cond_nested"], ["a", "b", "x"], |[a, b, x]| {
        let inner_true = || cond(b, || x.exp(), || x * x * x);
        let inner_false = || cond(b, || x, || 0.0 * x);
        outputs! { y: cond(a, inner_true, inner_false) }
    }),
    &program(&["cond_untaken_branch_is_undefined"], ["x"], |[x]| {
        outputs! { y: cond(x.gt(0.0), || x.log() * x.sqrt(), || x.square()) }
    }),
    // The values that the branches capture are also used outside the `cond`.
    &program(&["cond_and_outside"], ["x", "w"], |[x, w]| {
        let p = x.sum(..).gt(0.0) & w.sum(..).lt(10.0);
        outputs! { y: cond(p, || x * w, || x + w) * x + w.square() }
    }),
    &program(
        &["switch4_0", "switch4_1", "switch4_2", "switch4_3", "switch4_clamped_low", "switch4_clamped_high"],
        ["index", "x", "w"],
        |[index, x, w]| {
            outputs! { y: switch(index, [&|| x * w, &|| x.sin(), &|| x.square() + w, &|| (-w.square()).exp() * x]) }
        },
    ),
    &program(&["cond_in_scan", "cond_in_scan_f64"], ["init", "xs", "w"], |[init, xs, w]| {
        let (carry, ys) = scan(init, xs, |c, x| {
            carry_as_output(cond(c.sum(..).gt(0.0), || (c * w).tanh() - x.square(), || 0.5 * c + x))
        });
        outputs! { carry, ys }
    }),
    // A sequence of integers selects the branch of each step.
    &program(&["switch_in_scan"], ["init", "xs", "ops"], |[init, xs, ops]| {
        let (carry, ys) = scan(init, (ops, xs), |c, (k, x)| {
            carry_as_output(switch(k, [&|| c + x, &|| c * x, &|| c.sin() - x, &|| c]))
        });
        outputs! { carry, ys }
    }),
    &program(&["scan_in_cond_true", "scan_in_cond_false"], ["pred", "init", "xs"], |[pred, init, xs]| {
        let forward = || scan(init, xs, |c, x| ((c + x).tanh(), ())).0;
        let backward = || scan_with(funcify::ScanOptions::new().reverse(), init, xs, |c, x| (0.5 * c * x + 1.0, ())).0;
        outputs! { y: cond(pred, forward, backward) }
    }),
    &program(&["cond_in_while"], ["x0", "a"], |[x0, a]| {
        let next = |(x, n): (Value, Value)| (cond(x.lt(5.0), || 1.8 * x, || x + a * x), n + 1);
        let (x, n) = while_loop((x0, constant(0i64)), |(x, _)| x.lt(12.0), next);
        outputs! { x, n }
    }),
    // With a batched predicate, both branches run for the whole batch, and the predicate selects the result for each
    // row.
    &program(&["vmap_cond"], ["pred", "x", "w"], |[pred, x, w]| {
        outputs! { y: vmap((pred, x), |(pred, x)| cond(pred, || w * x.square(), || x.sin())) }
    }),
    &program(&["vmap_switch"], ["index", "x"], |[index, x]| {
        outputs! { y: vmap((index, x), |(index, x)| switch(index, [&|| x, &|| x.square(), &|| x.sin(), &|| x.exp()])) }
    }),
    // If some values are not finite, clamps all values and replaces NaN with 0. Otherwise, returns the values
    // unchanged.
    &program(&["clamp_invalid", "clamp_valid"], ["x"], |[x]| {
        let is_nan = |x: Value| x.ne(x);
        let invalid = (is_nan(x) | x.abs().eq(f64::INFINITY)).any(..);
        let clamp = || {
            let safe = select(is_nan(x), 0.0, x);
            let inside = safe.lt(100.0) & safe.gt(-100.0);
            select(is_nan(x), 0.0, select(inside, safe, safe.sign() * 100.0))
        };
        let y = cond(invalid, clamp, || x);
        outputs! { y, z: y.square() }
    }),
    &program(&["clamp_in_scan"], ["init", "w", "xs"], |[init, w, xs]| {
        scan_outputs(scan(init, xs, |c, x| {
            let u = c * w + x;
            let big = u.abs().gt(100.0);
            let c = cond(big.any(..), || select(big, u.sign() * 100.0, u), || u);
            (c, c)
        }))
    }),
    // Computes attention with a mask that depends on the sequence length.
    &program(&["shape_dependent_mask_long", "shape_dependent_mask_single"], ["q", "k", "v"], |[q, k, v]| {
        let n = q.dim(0);
        let i = iota(&n, DType::I64);
        let square = [n.clone(), n.clone()];
        let mask = cond(
            size(&n, DType::I64).gt(1),
            || i.unsqueeze(1).broadcast_to(square.clone()).ge(i.unsqueeze(0).broadcast_to(square.clone())),
            || i.ones_like().unsqueeze(1).broadcast_to(square.clone()).gt(0),
        );
        let scores = q.matmul(k.t()) * std::f64::consts::FRAC_1_SQRT_2;
        let scores = select(mask, scores, scores - 1e9);
        outputs! { y: scores.softmax(-1).matmul(v) }
    }),
];
