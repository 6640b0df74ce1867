//! The workloads of PROTOCOL.md in rlx. They use `Op::Scan`, which returns only its states, and `Op::While`.

use std::collections::BTreeMap;
use std::f32::consts::TAU;

use rlx::ir::op::CmpOp;

use crate::value::{Value, concat, fold, scan, while_loop};

const ODE_STEP: f32 = 1.0 / 16.0;
const METROPOLIS_WIDTH: f32 = 0.8;
const KALMAN_DIFFUSE: f32 = 1e7;
const CONJUGATE_GRADIENTS_TOLERANCE: f32 = 1e-10;

/// The sizes of a workload, keyed by letter.
pub(crate) struct Sizes(pub(crate) BTreeMap<String, usize>);

impl Sizes {
    fn all<const N: usize>(&self, letters: [&str; N]) -> [usize; N] {
        letters.map(|letter| self.0[letter])
    }
}

/// The inputs of a workload, keyed by name. Scalars are vectors of one element.
pub(crate) struct Inputs<'g>(pub(crate) BTreeMap<String, Value<'g>>);

impl<'g> Inputs<'g> {
    fn all<const N: usize>(&self, names: [&str; N]) -> [Value<'g>; N] {
        names.map(|name| self.0[name])
    }
}

/// A workload: one row of the table in PROTOCOL.md.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) outputs: &'static [Output],
    /// The names of the inputs with respect to which training differentiates. Empty if the workload has no gradient.
    pub(crate) differentiated: &'static [&'static str],
    /// `true` if the only output is the loss. Otherwise, the loss is the sum of the mean squares of all outputs.
    pub(crate) loss_is_output: bool,
    pub(crate) forward: Forward,
}

/// An output of the forward phase.
pub(crate) struct Output {
    pub(crate) name: &'static str,
    /// The letters that name the sizes, one per axis. The digit `2` denotes the constant size 2.
    pub(crate) dims: &'static str,
    pub(crate) is_integer: bool,
}

/// A function that builds the outputs in order, or the reason why rlx does not support the workload.
pub(crate) type Forward = Result<for<'g> fn(&Sizes, &Inputs<'g>) -> Vec<Value<'g>>, &'static str>;

pub(crate) const ALL: &[Workload] = &[
    workload("rnn", &[float("hs", "TBH")], &["w", "u", "b"], rnn),
    workload("lstm", &[float("hs", "TBH")], &["w", "u", "b"], lstm),
    workload("running_sum", &[float("ys", "TW")], &["xs"], running_sum),
    Workload { forward: Err(NO_ASSOCIATIVE_SCAN), ..workload("s5", STATES, S5, s5_scan) },
    workload("s5_scan", STATES, S5, s5_scan),
    workload("ssm", &[float("y", "TD")], &["a", "dt", "b", "c", "x"], ssm),
    loss_of("chunked_loss", &[float("loss", "")], &["hidden", "w"], chunked_loss),
    loss_of("kalman", &[float("nll", "")], &["log_q", "log_r"], kalman),
    loss_of("kalman_series", &[float("nll", "")], &["a", "c", "log_q", "log_r"], kalman_series),
    workload("neural_ode", &[float("ys", "TB2")], &["w1", "b1", "w2", "b2"], neural_ode),
    workload("metropolis", &[float("xs", "TC")], &[], metropolis),
    workload("conjugate_gradients", &[float("x", "N")], &["b"], conjugate_gradients),
    workload("decode", &[integer("count", ""), integer("tokens", "T")], &[], decode),
];

const STATES: &[Output] = &[float("x_re", "TP"), float("x_im", "TP")];
const S5: &[&str] = &["a_re", "a_im", "bu_re", "bu_im"];

/// The reason why rlx does not support workloads with an associative scan. `rlx-ir/src/op.rs` has no such op.
/// `rlx-fusion/src/assoc_scan.rs` rewrites a scan to an associative scan if the body is a real diagonal recurrence. A
/// complex recurrence over pairs of f32 numbers does not match. `rlx-runtime/src/session.rs` runs the rewritten scan
/// only on Metal.
const NO_ASSOCIATIVE_SCAN: &str =
    "rlx has no associative scan op; it rewrites only real diagonal recurrences to one, and only on Metal";

type Graph = for<'g> fn(&Sizes, &Inputs<'g>) -> Vec<Value<'g>>;

const fn workload(
    name: &'static str,
    outputs: &'static [Output],
    differentiated: &'static [&'static str],
    graph: Graph,
) -> Workload {
    Workload { name, outputs, differentiated, loss_is_output: false, forward: Ok(graph) }
}

const fn loss_of(
    name: &'static str,
    outputs: &'static [Output],
    differentiated: &'static [&'static str],
    graph: Graph,
) -> Workload {
    Workload { name, outputs, differentiated, loss_is_output: true, forward: Ok(graph) }
}

const fn float(name: &'static str, dims: &'static str) -> Output {
    Output { name, dims, is_integer: false }
}

const fn integer(name: &'static str, dims: &'static str) -> Output {
    Output { name, dims, is_integer: true }
}

impl Output {
    pub(crate) fn shape(&self, sizes: &Sizes) -> Vec<usize> {
        self.dims.chars().map(|letter| if letter == '2' { 2 } else { sizes.0[&letter.to_string()] }).collect()
    }
}

fn rnn<'g>(sizes: &Sizes, inputs: &Inputs<'g>) -> Vec<Value<'g>> {
    let [xs, h0, w, u, b] = inputs.all(["xs", "h0", "w", "u", "b"]);
    let [t] = sizes.all(["T"]);
    vec![scan(t, h0, [w, u, b], [xs], |h, [w, u, b], [x]| (x.matmul(w) + h.matmul(u) + b).tanh())]
}

/// Builds the LSTM. The state is the concatenation of h and c.
fn lstm<'g>(sizes: &Sizes, inputs: &Inputs<'g>) -> Vec<Value<'g>> {
    let [xs, h0, c0, w, u, b] = inputs.all(["xs", "h0", "c0", "w", "u", "b"]);
    let [t, n] = sizes.all(["T", "H"]);
    let states = scan(t, concat(&[h0, c0], 1), [w, u, b], [xs], |state, [w, u, b], [x]| {
        let [h, c] = [0, n].map(|start| state.narrow(1, start, n));
        let gates = x.matmul(w) + h.matmul(u) + b;
        let [i, f, g, o] = [0, 1, 2, 3].map(|gate| gates.narrow(1, gate * n, n));
        let c = f.sigmoid() * c + i.sigmoid() * g.tanh();
        concat(&[o.sigmoid() * c.tanh(), c], 1)
    });
    vec![states.narrow(2, 0, n)]
}

fn running_sum<'g>(sizes: &Sizes, inputs: &Inputs<'g>) -> Vec<Value<'g>> {
    let [xs] = inputs.all(["xs"]);
    let [t, w] = sizes.all(["T", "W"]);
    vec![scan(t, xs.zeros(&[w]), [], [xs], |sum, [], [x]| sum + x)]
}

/// Builds S5 as a scan. The state is the concatenation of the real and the imaginary parts.
fn s5_scan<'g>(sizes: &Sizes, inputs: &Inputs<'g>) -> Vec<Value<'g>> {
    let [a_re, a_im, bu_re, bu_im] = inputs.all(["a_re", "a_im", "bu_re", "bu_im"]);
    let [t, p] = sizes.all(["T", "P"]);
    let states = scan(t, a_re.zeros(&[2 * p]), [a_re, a_im], [bu_re, bu_im], |x, [a_re, a_im], [bu_re, bu_im]| {
        let [re, im] = [0, p].map(|start| x.narrow(0, start, p));
        concat(&[a_re * re - a_im * im + bu_re, a_re * im + a_im * re + bu_im], 0)
    });
    [0, p].map(|start| states.narrow(1, start, p)).to_vec()
}

/// Builds the selective state space model. The loop returns only its states, so `y` is computed from them after the
/// loop.
fn ssm<'g>(sizes: &Sizes, inputs: &Inputs<'g>) -> Vec<Value<'g>> {
    let [a, dt, b, c, x] = inputs.all(["a", "dt", "b", "c", "x"]);
    let [t, d, n] = sizes.all(["T", "D", "N"]);
    let hs = scan(t, a.zeros(&[d, n]), [a], [dt, b, x], |h, [a], [dt, b, x]| {
        (dt.reshape(&[d, 1]) * a).exp() * h + (dt * x).reshape(&[d, 1]) * b.reshape(&[1, n])
    });
    vec![(hs * c.reshape(&[t, 1, n])).sum(2)]
}

/// Builds the chunked loss. Adds `0 * targets` to the loss, because rlx rejects loops with an input that has no
/// gradient (`vjp_scan` in `rlx-autodiff/src/autodiff.rs`).
fn chunked_loss<'g>(sizes: &Sizes, inputs: &Inputs<'g>) -> Vec<Value<'g>> {
    let [hidden, w, targets] = inputs.all(["hidden", "w", "targets"]);
    let [m, d, chunks] = sizes.all(["M", "D", "C"]);
    let rows = [hidden.reshape(&[chunks, m / chunks, d]), targets.reshape(&[chunks, m / chunks])];
    let total = fold(chunks, hidden.zeros(&[1]), [w], rows, |total, [w], [hidden, targets]| {
        total + hidden.matmul(w).cross_entropies(targets).sum(0) + targets.sum(0) * 0.0
    });
    vec![total / m as f32]
}

/// Builds the Kalman filter. The state is the concatenation of m, p and nll.
fn kalman<'g>(sizes: &Sizes, inputs: &Inputs<'g>) -> Vec<Value<'g>> {
    let [ys, log_q, log_r] = inputs.all(["ys", "log_q", "log_r"]);
    let [t] = sizes.all(["T"]);
    let start = ys.constant(&[0.0, KALMAN_DIFFUSE, 0.0], &[3]);
    let last = fold(t, start, [log_q.exp(), log_r.exp()], [ys.reshape(&[t, 1])], |state, [q, r], [y]| {
        let [m, p, nll] = [0, 1, 2].map(|index| state.narrow(0, index, 1));
        let f = p + r;
        let v = y - m;
        let k = p / f;
        let cost = (f.log() + v * v / f + TAU.ln()) * 0.5;
        concat(&[m + k * v, p * r / f + q, nll + cost], 0)
    });
    vec![last.narrow(0, 2, 1)]
}

/// Builds one Kalman filter per series. The state of each series is one row: the concatenation of m, P and nll.
fn kalman_series<'g>(sizes: &Sizes, inputs: &Inputs<'g>) -> Vec<Value<'g>> {
    let [ys, a, c, log_q, log_r] = inputs.all(["ys", "a", "c", "log_q", "log_r"]);
    let [t, s, n] = sizes.all(["T", "S", "N"]);
    let unit: Vec<f32> = (0..n * n).map(|index| if index % (n + 1) == 0 { 1.0 } else { 0.0 }).collect();
    let series: Vec<f32> = [vec![0.0; n], unit.clone(), vec![0.0]].concat();
    let start = ys.constant(&series.repeat(s), &[s, n + n * n + 1]);
    // Computes `(P aᵀ)ᵀ` for each matrix `P` of the batch `p`. The parameter `a` holds the transposed matrix `aᵀ`.
    // Applying this function twice yields `a P aᵀ`.
    fn times_transposed<'b>(p: Value<'b>, a: Value<'b>) -> Value<'b> {
        let [s, n] = [p.dims()[0], p.dims()[1]];
        p.reshape(&[s * n, n]).matmul(a).reshape(&[s, n, n]).transpose(&[0, 2, 1])
    }
    let fixed = [a.transpose(&[1, 0]), c.reshape(&[n, 1]), log_q.exp(), log_r.exp()];
    let last = fold(t, start, fixed, [ys.reshape(&[t, s, 1])], |state, [a, c, q, r], [y]| {
        let m = state.narrow(1, 0, n);
        let p = state.narrow(1, n, n * n);
        let nll = state.narrow(1, n + n * n, 1);
        let pc = p.reshape(&[s * n, n]).matmul(c).reshape(&[s, n]);
        let f = pc.matmul(c) + r;
        let v = y - m.matmul(c);
        let k = pc / f;
        let cost = (f.log() + v * v / f + TAU.ln()) * 0.5;
        let m = (m + k * v).matmul(a);
        let p = p.reshape(&[s, n, n]) - k.reshape(&[s, n, 1]) * pc.reshape(&[s, 1, n]);
        let p = times_transposed(times_transposed(p, a), a) + q * q.constant(&unit, &[1, n, n]);
        concat(&[m, p.reshape(&[s, n * n]), nll + cost], 1)
    });
    vec![last.narrow(1, n + n * n, 1).reshape(&[s]).sum(0).reshape(&[1]) / (t * s) as f32]
}

fn neural_ode<'g>(sizes: &Sizes, inputs: &Inputs<'g>) -> Vec<Value<'g>> {
    let [y0, w1, b1, w2, b2] = inputs.all(["y0", "w1", "b1", "w2", "b2"]);
    let [t] = sizes.all(["T"]);
    vec![scan(t, y0, [w1, b1, w2, b2], [], |y, [w1, b1, w2, b2], []| {
        let field = |y| (Value::matmul(y, w1) + b1).tanh().matmul(w2) + b2;
        let k1 = field(y);
        let k2 = field(y + k1 * (ODE_STEP / 2.0));
        let k3 = field(y + k2 * (ODE_STEP / 2.0));
        let k4 = field(y + k3 * ODE_STEP);
        y + (k1 + k2 * 2.0 + k3 * 2.0 + k4) * (ODE_STEP / 6.0)
    })]
}

fn metropolis<'g>(sizes: &Sizes, inputs: &Inputs<'g>) -> Vec<Value<'g>> {
    let [x0, noise, log_u] = inputs.all(["x0", "noise", "log_u"]);
    let [t] = sizes.all(["T"]);
    fn mode(x: Value<'_>) -> Value<'_> {
        (x * x * -0.5).exp()
    }
    fn log_density(x: Value<'_>) -> Value<'_> {
        (mode(x - 2.0) + mode(x + 2.0)).log()
    }
    vec![scan(t, x0, [], [noise, log_u], |x, [], [noise, log_u]| {
        let proposal = x + noise * METROPOLIS_WIDTH;
        let accepted = log_u.compare(CmpOp::Lt, log_density(proposal) - log_density(x));
        accepted.select(proposal, x)
    })]
}

/// Builds the conjugate gradient method. Vectors are represented as matrices with one column.
fn conjugate_gradients<'g>(sizes: &Sizes, inputs: &Inputs<'g>) -> Vec<Value<'g>> {
    let [a, b] = inputs.all(["a", "b"]);
    let [n] = sizes.all(["N"]);
    fn dot<'b>(x: Value<'b>, y: Value<'b>) -> Value<'b> {
        (x * y).sum(0)
    }
    let b = b.reshape(&[n, 1]);
    let square = dot(b, b);
    let start = [b.zeros(&[n, 1]), b, b, square, square * CONJUGATE_GRADIENTS_TOLERANCE, a];
    let x = while_loop(
        n,
        start,
        |[_, _, _, square, limit, _]| square.compare(CmpOp::Gt, limit),
        |[x, r, p, square, limit, a]| {
            let ap = a.matmul(p);
            let alpha = square / dot(p, ap);
            let r = r - ap * alpha;
            let after = dot(r, r);
            [x + p * alpha, r, r + p * (after / square), after, limit, a]
        },
    );
    vec![x.reshape(&[n])]
}

/// Builds a greedy decoder. Its loop returns a single tensor: the number of tokens, followed by the tokens.
fn decode<'g>(sizes: &Sizes, inputs: &Inputs<'g>) -> Vec<Value<'g>> {
    let [embed, u, out, h0, first, end] = inputs.all(["embed", "u", "out", "h0", "first", "end"]);
    let [t, n] = sizes.all(["T", "H"]);
    let mut none = vec![-1.0; t + 1];
    none[0] = 0.0;
    let places: Vec<f32> = (0..=t).map(|place| place as f32).collect();
    let decoded = while_loop(
        t,
        [embed.constant(&none, &[t + 1]), first, h0.reshape(&[1, n]), embed, u, out, end],
        |[_, token, _, _, _, _, end]| token.compare(CmpOp::Ne, end),
        |[decoded, token, h, embed, u, out, end]| {
            let h = (embed.rows(token) + h.matmul(u)).tanh();
            let token = h.matmul(out).argmax(1);
            let count = decoded.narrow(0, 0, 1) + 1.0;
            let places = decoded.constant(&places, &[t + 1]);
            // Element 0 is the number of tokens so far, and the tokens start at element 1. A step therefore increments
            // element 0 to `count` and writes its token to element `count`.
            let counted = places.compare(CmpOp::Eq, decoded.constant(&[0.0], &[1])).select(decoded + 1.0, decoded);
            let decoded = places.compare(CmpOp::Eq, count).select(counted * 0.0 + token, counted);
            [decoded, token, h, embed, u, out, end]
        },
    );
    vec![decoded.narrow(0, 0, 1), decoded.narrow(0, 1, t)]
}
