//! Tests edge cases of closure loops: shapes, types, captured tensors and invalid closures.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use candle_core::{DType, Device, Error, Result, Tensor, Var};
use common::{assert_close, assert_gradients, backward, by_hand, loss, row, tensor, var};
use funcify_candle::{ScanOptions, checkpoint, cond, map, map_with, scan, scan_captured, scan_with, while_loop};

const STEPS: usize = 7;

fn error_of<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => panic!("not an error"),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn assert_contains(text: &str, parts: &[&str]) {
    parts.iter().for_each(|part| assert!(text.contains(part), "`{part}` is missing in\n{text}"));
}

#[test]
fn without_steps() {
    let (start, w) = (var(1, &[2], DType::F64), var(2, &[2], DType::F64));
    let xs = Tensor::zeros((0, 2), DType::F64, &Device::Cpu).unwrap();
    let weight = w.clone();
    let step = move |carry: Tensor, x: Tensor| {
        let next = ((&carry * weight.as_tensor())? + &x)?;
        Ok((next.clone(), (next.sum_all()?.to_dtype(DType::F32)?, x.unsqueeze(0)?)))
    };
    let (last, (sums, rows)) = scan(start.as_tensor(), &xs, step).unwrap();
    assert_eq!((sums.dims(), sums.dtype()), (&[0usize][..], DType::F32));
    assert_eq!(rows.dims(), [0, 1, 2]);
    let xs = Tensor::zeros((2, 0), DType::F64, &Device::Cpu).unwrap();
    let along = ScanOptions::new().axis(1);
    let (_, ys) = scan_with(along, start.as_tensor(), &xs, |h: Tensor, x: Tensor| Ok(((&h + &x)?, x))).unwrap();
    assert_eq!(ys.dims(), [2, 0]);
    let found = backward(&[&last]);
    assert_gradients(&found, &backward(&[&start]), &[&start], "start");
    assert!(found.get(&w).is_none());
    let same = while_loop(start.as_tensor(), |_| Ok(false), |x| x.sqr()).unwrap();
    assert_gradients(&backward(&[&same]), &backward(&[&start]), &[&start], "start");
}

#[test]
fn carries_of_mixed_types() {
    let (a, b) = (var(1, &[3], DType::F32), var(2, &[3], DType::F64));
    let xs = var(3, &[STEPS, 3], DType::F16);
    let index = Tensor::arange(0u32, STEPS as u32, &Device::Cpu).unwrap();
    let start = || (a.as_tensor().clone(), b.as_tensor().clone(), Tensor::new(0i64, &Device::Cpu).unwrap());
    type Carry = (Tensor, Tensor, Tensor);
    fn step((a, b, count): Carry, (x, i): (Tensor, Tensor)) -> Result<(Carry, (Tensor, Tensor, Tensor))> {
        let scale = (count.to_dtype(DType::F32)? * 0.1)?.exp()?;
        let next_a = (a.broadcast_mul(&scale)?.sin()? + x.to_dtype(DType::F32)?)?;
        let next_b = ((b * 0.5)? + next_a.to_dtype(DType::F64)?)?;
        let count = (count + i.to_dtype(DType::I64)?)?;
        Ok(((next_a.clone(), next_b, count.clone()), (next_a.to_dtype(DType::F16)?, count, i)))
    }
    let hand = by_hand(start(), STEPS, false, |carry, t| {
        let (carry, (y, ..)) = step(carry, (row(&xs, t)?, row(&index, t)?))?;
        Ok((carry, y))
    });
    let ((last_a, last_b, count), ys) = hand.unwrap();
    let expected = backward(&[&last_a, &last_b, &ys]);
    for options in [ScanOptions::new(), ScanOptions::new().keep_graphs()] {
        let sequences = (xs.as_tensor().clone(), index.clone());
        let ((found_a, found_b, found_count), (found_ys, counts, indices)) =
            scan_with(options, &start(), &sequences, step).unwrap();
        assert_eq!(found_count.to_scalar::<i64>().unwrap(), count.to_scalar::<i64>().unwrap());
        assert_eq!(counts.to_vec1::<i64>().unwrap(), [0, 1, 3, 6, 10, 15, 21]);
        assert_eq!(indices.to_vec1::<u32>().unwrap(), [0, 1, 2, 3, 4, 5, 6]);
        assert!(!found_count.track_op() && !counts.track_op());
        assert_gradients(&backward(&[&found_a, &found_b, &found_ys]), &expected, &[&a, &b, &xs], "mixed");
    }
}

/// Checks the gradients of losses that use only some of the loop's carries and ys.
#[test]
fn what_is_not_used() {
    let (w, start, xs) = (var(1, &[3], DType::F64), var(2, &[3], DType::F64), var(3, &[STEPS, 3], DType::F64));
    let step = |w: &Tensor, (a, b): (Tensor, Tensor), x: &Tensor| {
        let a = ((a * w)?.sin()? + x)?;
        let b = (b + &a)?;
        Ok(((a.clone(), b.clone()), (a, (b * x)?)))
    };
    let mut rows = (Vec::new(), Vec::new());
    let mut carry = (start.as_tensor().clone(), start.as_tensor().clone());
    for t in 0..STEPS {
        let ys;
        (carry, ys) = step(w.as_tensor(), carry, &row(&xs, t).unwrap()).unwrap();
        rows.0.push(ys.0);
        rows.1.push(ys.1);
    }
    let stack = |rows: &[Tensor]| Tensor::stack(rows, 0).unwrap();
    let by_hand = [carry.0, carry.1, stack(&rows.0), stack(&rows.1)];
    let weight = w.as_tensor().clone();
    let init = (start.as_tensor().clone(), start.as_tensor().clone());
    let ((a, b), (ya, yb)) = scan(&init, xs.as_tensor(), move |carry, x: Tensor| step(&weight, carry, &x)).unwrap();
    let found = [a, b, ya, yb];
    for used in [&[0usize][..], &[1], &[2], &[3], &[0, 3], &[1, 2], &[0, 1, 2, 3]] {
        let pick = |all: &[Tensor; 4]| loss(&used.iter().map(|index| &all[*index]).collect::<Vec<_>>()).unwrap();
        let (found, expected) = (pick(&found).backward().unwrap(), pick(&by_hand).backward().unwrap());
        assert_gradients(&found, &expected, &[&w, &start, &xs], &format!("{used:?}"));
    }
}

#[test]
fn one_tensor_in_several_places_and_strided() {
    // The same variable is used as the initial carry (twice), as a sequence, and as a captured tensor.
    let x = var(1, &[4, 4], DType::F64);
    let turned = x.t().unwrap();
    let hand = by_hand((turned.clone(), turned.clone()), 4, false, |(a, b), t| {
        let next = (a.broadcast_mul(&row(&turned, t)?)? + b.broadcast_add(&row(&x, t)?)?)?.sin()?;
        Ok(((b, next.clone()), next.matmul(&x)?))
    });
    let ((a, b), ys) = hand.unwrap();
    let expected = backward(&[&a, &b, &ys]);
    let captured = x.clone();
    let step = move |(a, b): (Tensor, Tensor), (row, other): (Tensor, Tensor)| {
        assert!(row.is_contiguous() && other.is_contiguous());
        let next = (a.broadcast_mul(&row)? + b.broadcast_add(&other)?)?.sin()?;
        Ok(((b, next.clone()), next.matmul(captured.as_tensor())?))
    };
    let sequences = (turned.clone(), x.as_tensor().clone());
    let ((found_a, found_b), found_ys) = scan(&(turned.clone(), turned), &sequences, step).unwrap();
    assert_gradients(&backward(&[&found_a, &found_b, &found_ys]), &expected, &[&x], "strided");
}

/// Checks loops with strided carries and captured tensors. Candle may round sums and products of a strided tensor
/// differently from those of a contiguous copy. The backward pass must still accept the results of the rerun.
#[test]
fn strided_carries_and_captured_tensors() {
    let (start, w, xs) =
        (var(1, &[48, 48], DType::F32), var(2, &[48, 48], DType::F32), var(3, &[STEPS, 48], DType::F32));
    let step = |h: Tensor, x: Tensor, w: Tensor| {
        let sums = h.sum_keepdim(1)?.broadcast_add(&x)?;
        let next = (h.matmul(&w)? * 0.1)?.add(&(sums * 0.01)?)?.sin()?;
        Ok((next.t()?, next.sum(0)?))
    };
    let (turned, weight) = (start.t().unwrap(), w.t().unwrap());
    let in_order = |h: Tensor| h.contiguous();
    let hand = by_hand(turned.clone(), STEPS, false, |h, t| step(in_order(h)?, row(&xs, t)?, weight.contiguous()?));
    let (last, ys) = hand.unwrap();
    let expected = loss(&[&last.contiguous().unwrap(), &ys]).unwrap().backward().unwrap();
    for options in [ScanOptions::new(), ScanOptions::new().segments(1), ScanOptions::new().keep_graphs()] {
        let (last, ys) = scan_captured(options, &turned, xs.as_tensor(), &weight, step).unwrap();
        assert_gradients(&backward(&[&last, &ys]), &expected, &[&start, &w, &xs], "strided");
    }
}

#[test]
fn tensors_without_elements() {
    let xs = Var::zeros((STEPS, 0, 2), DType::F32, &Device::Cpu).unwrap();
    let (start, w) = (Tensor::zeros((0, 2), DType::F32, &Device::Cpu).unwrap(), var(1, &[2], DType::F32));
    let weight = w.clone();
    let step = move |h: Tensor, x: Tensor| {
        let h = (h + x)?.broadcast_mul(weight.as_tensor())?;
        Ok((h.clone(), h))
    };
    let (last, ys) = scan(&start, xs.as_tensor(), step).unwrap();
    assert_eq!((last.dims(), ys.dims()), (&[0usize, 2][..], &[STEPS, 0, 2][..]));
    let gradients = (last.sum_all().unwrap() + ys.sum_all().unwrap()).unwrap().backward().unwrap();
    // For empty tensors, Candle's arithmetic does not record the right-hand operand.
    assert!(gradients.get(&xs).is_none() && gradients.get(&w).is_none());
}

/// Checks a reverse loop along axis 1, where the rows of the sequence are strided.
#[test]
fn another_axis() {
    let xs = var(1, &[2, STEPS, 3], DType::F32);
    let start = tensor(2, &[2, 3], DType::F32);
    let step = |h: Tensor, x: Tensor| {
        let h = (h * &x)?.sin()?;
        Ok((h.clone(), h))
    };
    let (_, expected) = by_hand(start.clone(), STEPS, true, |h, t| step(h, xs.narrow(1, t, 1)?.squeeze(1)?)).unwrap();
    let expected = expected.transpose(0, 1).unwrap();
    let options = ScanOptions::new().axis(1).reverse();
    let (_, ys) = scan_with(options, &start, xs.as_tensor(), step).unwrap();
    assert_close(&ys, &expected.contiguous().unwrap(), "ys");
    assert_gradients(&backward(&[&ys]), &backward(&[&expected]), &[&xs], "axis");
}

#[test]
fn without_anything_tracked() {
    let (start, xs) = (tensor(1, &[2], DType::F32), tensor(2, &[STEPS, 2], DType::F32));
    let (last, ys) = scan(&start, &xs, |h, x| Ok(((&h + &x)?, h))).unwrap();
    assert!(!last.track_op() && !ys.track_op());
    // A variable that the closure captures only as a detached tensor has no gradient. The other captured variable still
    // has one.
    let (w, hidden) = (var(3, &[2], DType::F32), var(4, &[2], DType::F32));
    let (weight, detached) = (w.clone(), hidden.detach());
    let (last, ()) = scan(&start, &xs, move |h, x| Ok((((h + x)? * weight.as_tensor())?.mul(&detached)?, ()))).unwrap();
    let gradients = last.sum_all().unwrap().backward().unwrap();
    assert!(gradients.get(&w).is_some() && gradients.get(&hidden).is_none());
}

/// Checks a loop without sequences. The options set its number of steps.
#[test]
fn a_number_of_steps() {
    let x = Var::new(0.9f64, &Device::Cpu).unwrap();
    let (last, ()) =
        scan_with(ScanOptions::new().length(3), x.as_tensor(), &(), |x: Tensor, ()| Ok((x.sqr()?, ()))).unwrap();
    assert!((last.to_scalar::<f64>().unwrap() - 0.9f64.powi(8)).abs() < 1e-12);
    let slope = last.backward().unwrap().get(&x).unwrap().to_scalar::<f64>().unwrap();
    assert!((slope - 8.0 * 0.9f64.powi(7)).abs() < 1e-12);
}

/// Checks that variables used only in some steps also have gradients.
#[test]
fn captured_in_one_branch() {
    let (even, odd) = (var(1, &[2], DType::F64), var(2, &[2], DType::F64));
    let index = Tensor::arange(0u32, STEPS as u32, &Device::Cpu).unwrap();
    let choose = |even: &Tensor, odd: &Tensor, h: Tensor, t: u32| {
        if t == 4 { (h * odd)?.sin() } else { (h + even)?.cos() }
    };
    let start = tensor(3, &[2], DType::F64);
    let step = |h, t| {
        let h = choose(&even, &odd, h, t as u32)?;
        Ok((h.clone(), h))
    };
    let (last, _) = by_hand(start.clone(), STEPS, false, step).unwrap();
    let expected = backward(&[&last]);
    let (a, b) = (even.clone(), odd.clone());
    let step = move |h, t: Tensor| Ok((choose(&a, &b, h, t.to_scalar()?)?, ()));
    let (last, ()) = scan(&start, &index, step).unwrap();
    assert_gradients(&backward(&[&last]), &expected, &[&even, &odd], "branches");
}

/// Checks gradients through a tensor computed from a variable. The closure either captures this tensor or receives it
/// as an operand.
#[test]
fn captured_tensors_with_a_graph() {
    let (w, xs) = (var(1, &[3, 3], DType::F64), var(2, &[STEPS, 3], DType::F64));
    let start = tensor(3, &[1, 3], DType::F64);
    let cell = |h: Tensor, x: Tensor, w: &Tensor| {
        let h = h.matmul(w)?.broadcast_add(&x)?.tanh()?;
        Ok((h.clone(), h))
    };
    let deep = |turns: usize| (0..turns).try_fold(w.t().unwrap(), |w, _| w.sin()).unwrap();
    // The transpose and 255 sines are 256 ops, which is the maximum for a captured tensor.
    for turns in [1, 255, 256] {
        let computed = deep(turns);
        let (last, _) = by_hand(start.clone(), STEPS, false, |h, t| cell(h, row(&xs, t)?, &computed)).unwrap();
        let expected = backward(&[&last]);
        let captured = computed.clone();
        let implied = scan(&start, xs.as_tensor(), move |h, x| cell(h, x, &captured));
        if turns < 256 {
            assert_gradients(&backward(&[&implied.unwrap().0]), &expected, &[&w, &xs], &format!("implied {turns}"));
        } else {
            assert_contains(&error_of(implied), &["that the closure captures", "scan_captured", "closure_edges.rs"]);
        }
        for options in [ScanOptions::new(), ScanOptions::new().keep_graphs()] {
            let step = move |h, x, w: Tensor| cell(h, x, &w);
            let (last, _) = scan_captured(options, &start, xs.as_tensor(), &computed, step).unwrap();
            assert_gradients(&backward(&[&last]), &expected, &[&w, &xs], &format!("passed {turns}"));
        }
    }
}

/// Checks loops that use the result of another loop. A closure must not capture this result; `scan_captured` accepts it
/// as an operand.
#[test]
fn a_captured_result_of_a_loop() {
    let xs = var(1, &[STEPS, 2], DType::F64);
    let start = tensor(2, &[2], DType::F64);
    let run = |encoded: &Tensor, pass: bool| {
        let step = |h: Tensor, x: Tensor, encoded: Tensor| Ok((((h * x)? + encoded.sum(0)?)?.sin()?, ()));
        let captured = encoded.clone();
        if pass {
            scan_captured(ScanOptions::new(), &start, xs.as_tensor(), encoded, step)
        } else {
            scan(&start, xs.as_tensor(), move |h, x| step(h, x, captured.clone()))
        }
    };
    let (_, encoded) = scan(&start, xs.as_tensor(), |h, x| Ok((((&h + &x)? * 0.5)?, (h * x)?))).unwrap();
    let implied = loss(&[&run(&encoded, false).unwrap().0]).unwrap().backward();
    assert_contains(&error_of(implied), &["captures", "scan_captured"]);
    let (_, by_hand) = by_hand(start.clone(), STEPS, false, |h, t| {
        let x = row(&xs, t)?;
        Ok((((&h + &x)? * 0.5)?, (h * x)?))
    })
    .unwrap();
    assert_close(&encoded, &by_hand, "encoded");
    let found = loss(&[&run(&encoded, true).unwrap().0]).unwrap().backward().unwrap();
    let expected = loss(&[&run(&by_hand, true).unwrap().0]).unwrap().backward().unwrap();
    assert_gradients(&found, &expected, &[&xs], "encoded");
}

/// Checks a nested loop that iterates over the row of the outer loop, and captures the outer carry and a variable.
#[test]
fn nested() {
    let (w, xs) = (var(1, &[2], DType::F64), var(2, &[4, 3, 2], DType::F64));
    let start = var(3, &[2], DType::F64);
    let inner = |w: &Tensor, outer: &Tensor, h: Tensor, x: &Tensor| ((h * w)?.sin()? + (x * outer)?)?.tanh();
    let hand = by_hand(start.as_tensor().clone(), 4, false, |carry, t| {
        let rows = row(&xs, t)?;
        let step = |h, s| {
            let h = inner(&w, &carry, h, &row(&rows, s)?)?;
            Ok((h.clone(), h))
        };
        by_hand(carry.clone(), 3, true, step)
    });
    let (last, ys) = hand.unwrap();
    let expected = backward(&[&last, &ys]);
    for (outer, inside) in [(false, false), (true, false), (false, true), (true, true)] {
        let options = |keep: bool| if keep { ScanOptions::new().keep_graphs() } else { ScanOptions::new().segments(2) };
        let weight = w.clone();
        let step = move |carry: Tensor, rows: Tensor| {
            let (weight, captured) = (weight.clone(), carry.clone());
            let step = move |h, x: Tensor| {
                let h = inner(&weight, &captured, h, &x)?;
                Ok((h.clone(), h))
            };
            scan_with(options(inside).reverse(), &carry, &rows, step)
        };
        let (found_last, found_ys) = scan_with(options(outer), start.as_tensor(), xs.as_tensor(), step).unwrap();
        assert_close(&found_ys, &ys, "ys");
        assert_gradients(&backward(&[&found_last, &found_ys]), &expected, &[&w, &xs, &start], "nested");
    }
}

#[test]
fn a_closure_that_fails_gives_its_error() {
    let xs = var(1, &[STEPS, 2], DType::F32);
    let start = tensor(2, &[2], DType::F32);
    let calls = Arc::new(AtomicUsize::new(0));
    let failing = |at: usize, calls: Arc<AtomicUsize>| {
        move |h: Tensor, x: Tensor| match calls.fetch_add(1, Ordering::Relaxed) {
            call if call == at => Err(Error::Msg("the sensor is off".into())),
            _ => Ok(((h + x)?.sin()?, ())),
        }
    };
    let error = error_of(scan(&start, xs.as_tensor(), failing(3, calls.clone())));
    assert_contains(&error, &["scan: step 3 of 7 failed", "the sensor is off"]);
    // Make the rerun fail. The failed backward pass must not affect a later one.
    calls.store(0, Ordering::Relaxed);
    let (last, ()) = scan(&start, xs.as_tensor(), failing(8, calls)).unwrap();
    let total = loss(&[&last]).unwrap();
    assert_contains(&error_of(total.backward()), &["when rerun for the gradient", "the sensor is off"]);
    let (expected, _) = by_hand(start, STEPS, false, |h, t| Ok(((h + row(&xs, t)?)?.sin()?, row(&xs, t)?))).unwrap();
    let expected = backward(&[&expected]);
    assert_gradients(&total.backward().unwrap(), &expected, &[&xs], "after a failure");
}

/// Checks that the backward pass returns an error if rerunning the closure gives different results, for example because
/// of dropout.
#[test]
fn a_closure_that_draws_is_an_error() {
    let xs = var(1, &[STEPS, 8], DType::F32);
    let start = tensor(2, &[8], DType::F32);
    let step = |h: Tensor, x: Tensor| Ok(((candle_nn::ops::dropout(&h, 0.5)? + x)?, ()));
    let (last, ()) = scan(&start, xs.as_tensor(), step).unwrap();
    assert_contains(&error_of(last.sum_all().unwrap().backward()), &["leaf `carry`", "dropout masks", "keep_graphs"]);
    let (last, ()) = scan_with(ScanOptions::new().keep_graphs(), &start, xs.as_tensor(), step).unwrap();
    let gradient = last.sum_all().unwrap().backward().unwrap();
    let rows = gradient.get(&xs).unwrap().to_vec2::<f32>().unwrap();
    assert_eq!(rows[STEPS - 1], [1f32; 8]);
    assert!(rows[STEPS - 2].iter().all(|g| *g == 0.0 || *g == 2.0), "{rows:?}");
    // The rerun must also return the same ys.
    let drawn = |x: Tensor| candle_nn::ops::dropout(&x, 0.5);
    let (_, ys) = scan(&start, xs.as_tensor(), move |h: Tensor, x| Ok(((h + &x)?, drawn(x)?))).unwrap();
    assert_contains(&error_of(ys.sum_all().unwrap().backward()), &["scan: a y of step", "keep_graphs"]);
    let mapped = map(xs.as_tensor(), drawn).unwrap().sum_all().unwrap();
    assert_contains(&error_of(mapped.backward()), &["map: a y of step"]);
    let again = checkpoint(xs.as_tensor(), drawn).unwrap().sum_all().unwrap();
    assert_contains(&error_of(again.backward()), &["checkpoint: a y of step 0"]);
    // A rerun that returns the same numbers in a different order is an error too.
    let calls = Arc::new(AtomicUsize::new(0));
    let turned = map(xs.as_tensor(), move |x: Tensor| match calls.fetch_add(1, Ordering::SeqCst) < STEPS {
        true => x * 2.0,
        false => x.flip(&[0])? * 2.0,
    });
    assert_contains(&error_of(turned.unwrap().sum_all().unwrap().backward()), &["map: a y of step"]);
    // The comparison with the rerun treats NaN as equal to NaN.
    let (last, ()) = scan(&start, xs.as_tensor(), |h: Tensor, x| Ok(((h * f64::NAN)?.add(&x)?, ()))).unwrap();
    assert!(last.sum_all().unwrap().backward().is_ok());
}

/// Checks that the backward pass returns an error if a captured variable has changed since the forward pass. The rerun
/// then gives different results.
#[test]
fn a_variable_that_changed_is_an_error() {
    let (w, xs) = (var(1, &[2], DType::F64), var(2, &[STEPS, 2], DType::F64));
    let (weight, start) = (w.clone(), tensor(3, &[2], DType::F64));
    let step = move |h: Tensor, x: Tensor| Ok((((h * weight.as_tensor())? + x)?.sin()?, ()));
    let total = loss(&[&scan(&start, xs.as_tensor(), step).unwrap().0]).unwrap();
    let first = total.backward().unwrap();
    let before = w.copy().unwrap();
    w.set(&(w.as_tensor() * 1.5).unwrap()).unwrap();
    assert_contains(&error_of(total.backward()), &["change variables after the backward"]);
    w.set(&before).unwrap();
    assert_gradients(&total.backward().unwrap(), &first, &[&w, &xs], "set back");
}

#[test]
fn mistakes_are_errors() {
    let (start, xs) = (tensor(1, &[2], DType::F32), tensor(2, &[STEPS, 2], DType::F32));
    let error = error_of(scan(&start, &xs, |h: Tensor, _: Tensor| Ok((h.to_dtype(DType::F64)?, ()))));
    assert_contains(&error, &["scan: leaf `carry` of the next carry", "f32[2]", "f64[2]", "closure_edges.rs"]);
    let pair = (start.clone(), vec![start.clone()]);
    let error = error_of(scan(&pair, &xs, |(a, b): (Tensor, Vec<Tensor>), _: Tensor| {
        Ok(((a.clone(), vec![a, b[0].clone()]), ()))
    }));
    assert_contains(&error, &["the next carry", "2 leaves", "3"]);
    let error = error_of(scan(&pair, &xs, |(a, b): (Tensor, Vec<Tensor>), x: Tensor| {
        Ok(((a, vec![b[0].narrow(0, 0, 1)?]), x))
    }));
    assert_contains(&error, &["leaf `carry_1_0`", "f32[2]", "f32[1]"]);
    let error = error_of(scan(&(), &(xs.clone(), xs.narrow(0, 0, 3).unwrap()), |(), _: (Tensor, Tensor)| Ok(((), ()))));
    assert_contains(&error, &["`xs_0` specifies 7 steps", "`xs_1` has 3 rows"]);
    let options = ScanOptions::new().length(5);
    let error = error_of(scan_with(options, &(), &xs, |(), _: Tensor| Ok(((), ()))));
    assert_contains(&error, &["`ScanOptions::length` specifies 5 steps", "7 rows"]);
    assert_contains(&error_of(scan(&start, &(), |h: Tensor, ()| Ok((h, ())))), &["no sequences", "length(n)"]);
    let error = error_of(scan_with(ScanOptions::new().axis(2), &(), &xs, |(), x: Tensor| Ok(((), x))));
    assert_contains(&error, &["sequence `xs`", "axis 2", "f32[7,2]"]);
    let growing = |h: Tensor, _: Tensor| Ok(((h + 1.0)?, Tensor::zeros(1, DType::F32, &Device::Cpu)?));
    assert!(scan(&start, &xs, growing).is_ok());
    let calls = AtomicUsize::new(1);
    let growing = move |h: Tensor, x: Tensor| Ok((h, x.repeat(calls.fetch_add(1, Ordering::Relaxed))?));
    assert_contains(&error_of(scan(&start, &xs, growing)), &["y 0 of step 1", "f32[2]", "f32[4]"]);
    let calls = AtomicUsize::new(0);
    let fewer = move |h: Tensor, x: Tensor| Ok((h, vec![x; 2 - calls.fetch_add(1, Ordering::Relaxed).min(1)]));
    assert_contains(&error_of(scan(&start, &xs, fewer)), &["the ys of step 1", "2 leaves", "1"]);
    let error = error_of(scan_with(ScanOptions::new().axis(1), &(), &xs, |(), x: Tensor| Ok(((), x.sum_all()?))));
    assert_contains(&error, &["y 0 of the step", "at least 1 axes", "f32[]"]);
    let error = error_of(cond(&start, &start, Ok, Ok));
    assert_contains(&error, &["cond: the predicate", "f32[2]"]);
}

#[test]
fn while_loops() {
    let (start, w) = (var(1, &[3], DType::F64), Var::new(1.3f64, &Device::Cpu).unwrap());
    let body = |w: &Tensor, (x, count): (Tensor, Tensor)| Ok(((x.broadcast_mul(w)?.sin()? + x)?, (count + 1.0)?));
    for steps in [1u32, 2, 5, 40] {
        let counter = Tensor::new(0u32, &Device::Cpu).unwrap();
        let init = (start.as_tensor().clone(), counter);
        let mut hand = init.clone();
        for _ in 0..steps {
            hand = body(&w, hand).unwrap();
        }
        let weight = w.clone();
        let more = move |(_, count): &(Tensor, Tensor)| Ok(count.to_scalar::<u32>()? < steps);
        let (last, count) = while_loop(&init, more, move |carry| body(&weight, carry)).unwrap();
        assert_eq!(count.to_scalar::<u32>().unwrap(), steps);
        let (found, expected) = (loss(&[&last]).unwrap(), loss(&[&hand.0]).unwrap());
        assert_gradients(&found.backward().unwrap(), &expected.backward().unwrap(), &[&start, &w], "while");
    }
}

#[test]
fn maps_and_checkpoints() {
    let (xs, w) = (var(1, &[5, 3], DType::F64), var(2, &[3], DType::F64));
    let body = |w: &Tensor, x: Tensor| Ok(((&x * w)?.sin()?, x.sqr()?.sum_all()?));
    let (expected, norms) = {
        let rows: Vec<(Tensor, Tensor)> = (0..5).map(|t| body(&w, row(&xs, t)?)).collect::<Result<_>>().unwrap();
        let stack = |rows: Vec<Tensor>| Tensor::stack(&rows, 0).unwrap();
        (stack(rows.iter().map(|row| row.0.clone()).collect()), stack(rows.iter().map(|row| row.1.clone()).collect()))
    };
    let gradients = backward(&[&expected, &norms]);
    for options in [ScanOptions::new(), ScanOptions::new().segments(1), ScanOptions::new().keep_graphs()] {
        let weight = w.clone();
        let (found, found_norms) = map_with(options, xs.as_tensor(), move |x| body(&weight, x)).unwrap();
        assert_close(&found, &expected, "map");
        assert_gradients(&backward(&[&found, &found_norms]), &gradients, &[&xs, &w], "map");
    }
    let weight = w.clone();
    let (found, norm) =
        checkpoint(xs.as_tensor(), move |xs| Ok((xs.broadcast_mul(&weight)?.sin()?, xs.sqr()?.sum(1)?))).unwrap();
    assert_gradients(&backward(&[&found, &norm]), &gradients, &[&xs, &w], "checkpoint");
    let counted = map(xs.as_tensor(), |x: Tensor| x.gt(0.0)).unwrap();
    assert_eq!((counted.dtype(), counted.track_op()), (DType::U8, false));
}

#[test]
fn choices() {
    let (x, w) = (var(1, &[3], DType::F32), var(2, &[3], DType::F32));
    let (bytes, numbers, integers) = ([0u8, 1, 7], [0f32, 0.5, -1.0, f32::NAN, -0.0], [0i64, -1, i64::MIN]);
    let predicates = (bytes.iter().map(|flag| (Tensor::new(&[*flag], &Device::Cpu), *flag != 0)))
        .chain(numbers.iter().map(|number| (Tensor::new(&[*number], &Device::Cpu), *number != 0.0)))
        .chain(integers.iter().map(|integer| (Tensor::new(&[*integer], &Device::Cpu), *integer != 0)));
    for (predicate, holds) in predicates {
        let (a, b) = (w.clone(), w.clone());
        let predicate = predicate.unwrap();
        let on_true = move |x: Tensor| (x.exp()? * a.as_tensor())?.sin();
        let on_false = move |x: Tensor| x.sin()? + b.as_tensor();
        let y = cond(&predicate, x.as_tensor(), on_true, on_false).unwrap();
        let expected = match holds {
            false => x.sin().unwrap() + w.as_tensor(),
            true => (x.exp().unwrap() * w.as_tensor()).unwrap().sin(),
        };
        let expected = loss(&[&expected.unwrap()]).unwrap().backward().unwrap();
        assert_gradients(&backward(&[&y]), &expected, &[&x, &w], "cond");
    }
}

/// Checks closures that transpose the weight in all steps, in even steps or in odd steps. The gradients that are summed
/// over the steps may then have different memory layouts.
#[test]
fn a_captured_weight_is_transposed() {
    let (w, start, xs) = (var(1, &[3, 3], DType::F64), var(2, &[2, 3], DType::F64), var(3, &[STEPS, 2, 3], DType::F64));
    for is_transposed in [|_| true, |step| step % 2 == 0, |step| step % 2 == 1] as [fn(u32) -> bool; 3] {
        let step = move |w: &Tensor, (h, count): (Tensor, Tensor), x: &Tensor| {
            let w = if is_transposed(count.to_scalar::<u32>()?) { w.t()? } else { w.clone() };
            Ok(((((h.matmul(&w)? * 0.5)?.tanh()? + x)?, (count + 1.0)?), ()))
        };
        let count = Tensor::new(0u32, &Device::Cpu).unwrap();
        let from = (start.as_tensor().clone(), count);
        let hand = by_hand(from.clone(), STEPS, false, |carry, t| {
            let (carry, ()) = step(w.as_tensor(), carry, &row(&xs, t)?)?;
            Ok((carry.clone(), carry.0))
        });
        let expected = loss(&[&hand.unwrap().0.0]).unwrap().backward().unwrap();
        for options in [ScanOptions::new(), ScanOptions::new().keep_graphs()] {
            let weight = w.clone();
            let body = move |carry: (Tensor, Tensor), x: Tensor| step(weight.as_tensor(), carry, &x);
            let ((last, _), ()) = scan_with(options, &from, xs.as_tensor(), body).unwrap();
            assert_gradients(&backward(&[&last]), &expected, &[&w, &start, &xs], "transposed");
        }
    }
}

/// Checks that a loop returns an error if its steps return tensors at different paths of the tree.
#[test]
fn tensors_at_other_paths_are_errors() {
    type Pair = (Option<Tensor>, Option<Tensor>);
    let swapped = |(a, b): Pair| (b, a);
    let xs = tensor(1, &[STEPS, 3], DType::F64);
    let start: Pair = (Some(tensor(2, &[3], DType::F64)), None);
    let looped = scan(&start, &xs, move |carry: Pair, x: Tensor| Ok((swapped(carry), x)));
    assert_contains(&error_of(looped), &["carry", "tensors at carry_0", "tensors at carry_1", "closure_edges.rs"]);
    let looped = while_loop(&start, |_| Ok(true), move |carry| Ok(swapped(carry)));
    assert_contains(&error_of(looped), &["carry", "tensors at carry_0", "tensors at carry_1", "closure_edges.rs"]);
    let count = Tensor::new(0u32, &Device::Cpu).unwrap();
    let looped = scan(&count, &xs, |count: Tensor, x: Tensor| -> Result<(Tensor, Pair)> {
        let is_even = count.to_scalar::<u32>()? % 2 == 0;
        Ok(((count + 1.0)?, if is_even { (Some(x), None) } else { (None, Some(x)) }))
    });
    assert_contains(&error_of(looped), &["tensors at y_0", "tensors at y_1", "closure_edges.rs"]);
}

/// Checks that a variable that does not affect the loss has no gradient, as in a handwritten loop. If the gradient were
/// zero instead, an optimiser with weight decay would shrink the variable.
#[test]
fn a_variable_that_the_loss_does_not_use_has_no_gradient() {
    for options in [ScanOptions::new(), ScanOptions::new().keep_graphs()] {
        let (used, other) = (var(1, &[3], DType::F64), var(2, &[3], DType::F64));
        let (start, xs) = (var(3, &[3], DType::F64), tensor(4, &[STEPS, 3], DType::F64));
        let (a, b) = (used.clone(), other.clone());
        let step = move |h: Tensor, x: Tensor| {
            let h = ((h * 0.5)? + x)?.sin()?;
            Ok((h.clone(), ((&h * a.as_tensor())?, (&h * b.as_tensor())?)))
        };
        let (_, (first, _)) = scan_with(options, start.as_tensor(), &xs, step).unwrap();
        let gradients = backward(&[&first]);
        assert!(gradients.get(&used).is_some() && gradients.get(&start).is_some());
        assert!(gradients.get(&other).is_none());
    }
}
