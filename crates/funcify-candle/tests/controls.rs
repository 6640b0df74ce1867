//! Tests Candle's ops and autodiff controls, such as `detach`, in closures. Each loop must return the same values and
//! gradients as its handwritten counterpart, and no gradient where the counterpart has none.

mod common;

use candle_core::backprop::GradStore;
use candle_core::{CpuStorage, CustomOp1, DType, Device, Layout, Result, Shape, Tensor, Var};
use candle_nn::ops::{log_softmax, sigmoid, softmax};
use common::{assert_close, backward, by_hand, loss, row, tensor, var};
use funcify_candle::{ScanOptions, checkpoint, cond, map, scan_captured, while_loop};

const STEPS: usize = 5;
const WIDTH: usize = 4;

/// A step: a function from a captured tensor, the carry and a row to the next carry and the y.
type Body = fn(Tensor, Tensor, Tensor) -> Result<(Tensor, Tensor)>;

/// Builds a [`Body`] whose y is also the next carry.
macro_rules! body {
    (|$w:ident, $c:ident, $x:ident| $result:expr) => {
        (|$w: Tensor, $c: Tensor, $x: Tensor| {
            let next: Result<Tensor> = $result;
            let next = next?;
            Ok((next.clone(), next))
        }) as Body
    };
}

const CONTROLS: &[(&str, Body)] = &[
    ("nothing", body!(|w, c, x| ((c * w)? + x)?.tanh())),
    ("a weight", body!(|w, c, x| c + (w.detach() * w)? * x)),
    ("a weight, in all its uses", body!(|w, c, x| (c * 0.5)? + w.detach() * x)),
    ("the carry", body!(|w, c, x| (c.detach() * &w)? + w * x)),
    ("the carry, in one use", body!(|w, c, x| (c.detach() * w)? + c * x)),
    ("the row", body!(|w, c, x| (c * w)? + x.detach())),
    ("the next carry", |w, c, x| {
        let next = ((c * w)? + x)?.tanh()?;
        Ok((next.detach(), next))
    }),
    ("the result", |w, c, x| {
        let next = ((c * w)? + x)?.tanh()?;
        Ok((next.clone(), next.detach()))
    }),
    ("an argument that is a result", |w, c, x| Ok((((&c * w)? + &x)?, x.detach()))),
    (
        "a spike",
        body!(|w, c, x| {
            let v = ((c * w)? + x)?;
            let (hard, soft) = (v.gt(0.3)?.to_dtype(v.dtype())?, sigmoid(&v)?);
            (hard - &soft)?.detach() + soft
        }),
    ),
    (
        "both operands alike",
        body!(|w, c, x| {
            let v = ((c * w)? + x)?;
            v.detach() * v
        }),
    ),
    (
        "the divisor",
        body!(|w, c, x| {
            let v = (((c * w)? + x)? + 3.0)?;
            &v / v.detach()
        }),
    ),
    (
        "a variable of its own",
        body!(|w, c, x| {
            let own = Var::from_tensor(&(&w * &x)?)?;
            (c * 0.5)? + (own.as_tensor() * w)?
        }),
    ),
    ("a comparison", body!(|w, c, x| (c * 0.5)? + (w * x.gt(0.1)?.to_dtype(x.dtype())?)?)),
    (
        "a result that is dropped",
        body!(|w, c, x| {
            let _head = (w * &c)?;
            (c * 0.5)? + x
        }),
    ),
    ("a custom op", body!(|w, c, x| (c * 0.5)? + (w * x)?.apply_op1(Scaled)?)),
    ("a custom op without a gradient", body!(|w, c, x| (c * &w)? + (w * x)?.apply_op1_no_bwd(&Scaled)?)),
];

const OPS: &[(&str, Body)] = &[
    ("arithmetic", body!(|w, c, x| (((c * 0.5)? + (&w * &x)?)? - (w / (x + 3.0)?)?)? * 0.3)),
    ("affine", body!(|w, c, x| (c * w)?.affine(0.5, 0.1)? + x.neg()?)),
    ("exponentials", body!(|w, c, x| ((c * w)?.exp()? * 0.2)? + (x.sqr()? + 1.0)?.log()?)),
    ("circular", body!(|w, c, x| (c * w)?.sin()? + x.cos()?)),
    ("roots", body!(|w, c, x| ((c * w)?.sqr()? + 1.0)?.sqrt()? * (x + 2.0)?.recip()?)),
    (
        "powers",
        body!(|w, c, x| {
            let power = ((c * w)?.sqr()? + 1.0)?.powf(1.3)?;
            let other = (x.abs()? + 1.0)?.pow(&Tensor::full(0.7, WIDTH, x.device())?)?;
            (power * other)? * 0.2
        }),
    ),
    ("activations", body!(|w, c, x| ((c * &w)?.relu()? + x.gelu_erf()?)? + (w.silu()? + x.elu(0.5)?)?)),
    ("gelu", body!(|w, c, x| (c * w)?.gelu()? + x.erf()?)),
    ("softmax", body!(|w, c, x| softmax(&((c * &w)? + x)?, 0)? + (log_softmax(&w, 0)? * 0.1)?)),
    ("extrema", body!(|w, c, x| (c * &w)?.maximum(&x)?.minimum(&(w + 0.4)?)? + (x * 0.1)?)),
    ("clamp", body!(|w, c, x| ((c * w)? + x)?.clamp(-0.5, 0.5))),
    ("sums", body!(|w, c, x| (c * w)?.broadcast_sub(&x.sum_keepdim(0)?)?.broadcast_add(&x.mean_keepdim(0)?))),
    ("maxima", body!(|w, c, x| (c * w)?.broadcast_add(&x.max_keepdim(0)?)?.broadcast_mul(&x.min_keepdim(0)?))),
    (
        "a product of matrices",
        body!(|w, c, x| {
            let square = w.unsqueeze(1)?.matmul(&x.unsqueeze(0)?)?;
            square.matmul(&c.unsqueeze(1)?)?.squeeze(1)
        }),
    ),
    (
        "a transposed product",
        body!(|w, c, x| c.unsqueeze(0)?.matmul(&w.unsqueeze(0)?.t()?)?.broadcast_as((1, WIDTH))?.squeeze(0)? * x),
    ),
    ("parts", body!(|w, c, x| Tensor::cat(&[&c.narrow(0, 1, WIDTH - 1)?, &(w * x)?.narrow(0, 0, 1)?], 0))),
    ("stacks", body!(|w, c, x| Tensor::stack(&[&c, &w, &(x * 0.5)?], 0)?.mean(0))),
    ("padding", body!(|w, c, x| (c * w)?.pad_with_zeros(0, 1, 1)?.narrow(0, 0, WIDTH)? + x)),
    ("layouts", body!(|w, c, x| (c * w)?.reshape((2, 2))?.t()?.contiguous()?.flatten_all()? + x)),
    ("a choice", body!(|w, c, x| x.gt(0.0)?.where_cond(&(c * &w)?, &(w + x)?))),
    (
        "lookups",
        body!(|w, c, x| {
            let indices = Tensor::new(&[3u32, 0, 0, 2], w.device())?;
            (c * w.index_select(&indices, 0)?)? + x.gather(&indices, 0)?
        }),
    ),
    (
        "scattered sums",
        body!(|w, c, x| {
            let indices = Tensor::new(&[1u32, 1, 0, 3], w.device())?;
            (c * 0.5)?.index_add(&indices, &(&w * &x)?, 0)?.scatter_add(&indices, &w, 0)
        }),
    ),
    ("casts", body!(|w, c, x| (c.to_dtype(DType::F32)?.to_dtype(DType::F64)? * w)? + x)),
    (
        "a convolution",
        body!(|w, c, x| {
            let kernel = w.narrow(0, 0, 3)?.reshape((1, 1, 3))?;
            c.reshape((1, 1, WIDTH))?.conv1d(&kernel, 1, 1, 1, 1)?.flatten_all()? + x
        }),
    ),
];

/// An op that doubles its input, but deliberately multiplies the gradient by 5.
struct Scaled;

impl CustomOp1 for Scaled {
    fn name(&self) -> &'static str {
        "scaled"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let CpuStorage::F64(elements) = storage else { candle_core::bail!("f64 alone") };
        let elements = &elements[layout.start_offset()..][..layout.shape().elem_count()];
        Ok((CpuStorage::F64(elements.iter().map(|x| 2.0 * x).collect()), layout.shape().clone()))
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        Ok(Some((gradient * 5.0)?))
    }
}

fn vars() -> [Var; 3] {
    [var(1, &[WIDTH], DType::F64), var(2, &[WIDTH], DType::F64), var(3, &[STEPS, WIDTH], DType::F64)]
}

/// Asserts that two backward passes computed the same gradients for these variables. Treats a missing gradient as
/// zeros, because Candle's backward pass creates zeros for some tensors that it visits.
#[track_caller]
fn assert_same(found: &GradStore, expected: &GradStore, vars: &[&Var], what: &str) {
    for (index, var) in vars.iter().enumerate() {
        match (found.get(var), expected.get(var)) {
            (Some(found), Some(expected)) => assert_close(found, expected, &format!("{what}, variable {index}")),
            (None, None) => {}
            (Some(one), None) | (None, Some(one)) => {
                assert_close(one, &one.zeros_like().unwrap(), &format!("{what}, variable {index}, in one alone"));
            }
        }
    }
}

#[test]
fn every_op_and_control_is_candles() {
    let [w, c, xs] = vars();
    let all = [&w, &c, &xs];
    for (name, body) in CONTROLS.iter().chain(OPS) {
        let step = |carry: Tensor, t| body(w.as_tensor().clone(), carry, row(&xs, t)?);
        let (last, ys) = by_hand(c.as_tensor().clone(), STEPS, false, step).unwrap();
        let expected = loss(&[&last, &ys]).unwrap();
        let gradients = expected.backward().unwrap();
        let ways = [ScanOptions::new(), ScanOptions::new().segments(1), ScanOptions::new().keep_graphs()];
        for (way, options) in ways.into_iter().enumerate() {
            let what = format!("{name}, way {way}");
            // Run the loop twice: first with the weight as an operand, then with the weight captured by the closure.
            let body = *body;
            let told = scan_captured(options.clone(), c.as_tensor(), xs.as_tensor(), w.as_tensor(), move |c, x, w| {
                body(w, c, x)
            });
            let captured = w.as_tensor().clone();
            let step = move |c, x, ()| body(captured.clone(), c, x);
            let caught = scan_captured(options, c.as_tensor(), xs.as_tensor(), &(), step);
            for looped in [told, caught] {
                let (found_last, found_ys) = looped.unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_close(&found_last, &last, &what);
                assert_close(&found_ys, &ys, &what);
                let found = backward(&[&found_last, &found_ys]);
                assert_same(&found, &gradients, &all, &what);
            }
        }
    }
}

#[test]
fn every_other_closure_stops_where_candle_stops() {
    let [w, c, xs] = vars();
    let all = [&w, &c, &xs];
    let stop = |x: &Tensor, w: &Tensor| (x.detach() * w)? + (x * w.detach())?.tanh()?;
    let check = |name: &str, found: Tensor, expected: Tensor| {
        assert_close(&found, &expected, name);
        let [found, expected] = [found, expected].map(|it| backward(&[&it]));
        assert_same(&found, &expected, &all, name);
    };
    let captured = w.as_tensor().clone();
    let mapped = map(xs.as_tensor(), move |x: Tensor| stop(&x, &captured)).unwrap();
    let rows: Vec<Tensor> = (0..STEPS).map(|t| stop(&row(&xs, t).unwrap(), &w).unwrap()).collect();
    check("map", mapped, Tensor::stack(&rows, 0).unwrap());
    let captured = w.as_tensor().clone();
    let checkpointed = checkpoint(c.as_tensor(), move |c: Tensor| stop(&c, &captured)).unwrap();
    check("checkpoint", checkpointed, stop(&c, &w).unwrap());
    for truth in [0u8, 1] {
        let predicate = Tensor::new(truth, &Device::Cpu).unwrap();
        let pair = (c.as_tensor().clone(), w.as_tensor().clone());
        let chosen = cond(&predicate, &pair, move |(c, w): (Tensor, Tensor)| stop(&c, &w), |(c, w)| c.detach() + w);
        let expected = if truth == 1 { stop(&c, &w) } else { c.detach() + w.as_tensor() };
        check("cond", chosen.unwrap(), expected.unwrap());
    }
    let captured = w.as_tensor().clone();
    let start = (tensor(9, &[], DType::F64), c.as_tensor().clone());
    let looped = while_loop(
        &(Tensor::new(0f64, &Device::Cpu).unwrap(), start.1.clone()),
        |(count, _)| Ok(count.to_scalar::<f64>()? < 3.0),
        move |(count, c): (Tensor, Tensor)| Ok(((count + 1.0)?, stop(&c, &captured)?)),
    );
    let expected = (0..3).try_fold(c.as_tensor().clone(), |c, _| stop(&c, &w));
    check("while_loop", looped.unwrap().1, expected.unwrap());
}
