//! xLSTM: LSTMs with exponential gates. Their memory is a vector (sLSTM) or one matrix per head (mLSTM).

use super::*;

/// The kind of xLSTM cell.
///
/// ```
/// use funcify::nn::{Xlstm, XlstmCell};
///
/// let layer = Xlstm::new(XlstmCell::Slstm, 8, 16).layer()?;
/// assert_eq!(layer.graph.name(), "slstm");
/// assert_eq!(layer.states.len(), 4);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XlstmCell {
    /// sLSTM: the memory is a vector, and the gates read the previous state.
    Slstm,
    /// mLSTM: the memory is one matrix per head, and the gates depend only on the input.
    Mlstm,
}

/// The sLSTM and mLSTM layers of xLSTM (Beck et al. 2024), in stabilised form: the stored memories are scaled by
/// `exp(-m)`, so that no exponential overflows.
///
/// From the preactivations i and f of the input and forget gates, both cells compute the stabiliser `m' = max(log f +
/// m, i)` and the stabilised gates `i* = exp(i - m')` and `f* = exp(log f + m - m')`, where `log f` is the log-sigmoid
/// of the preactivation f. The states of sLSTM are `h`, `c`, `n` and `m`, of shape `[B, hidden]`. sLSTM computes `c' =
/// f* c + i* tanh(z)`, `n' = f* n + i*` and `h' = sigmoid(o) c' / n'`. Here i, f, z and o are the four blocks, in this
/// order, of `x Wᵀ + b + h R`, and R applies to each head separately. Each head of mLSTM has its own q, k and v, and
/// its own scalar gates i and f. It computes `C' = f* C + i* k vᵀ`, `n' = f* n + i* k` and `h = sigmoid(o) (C'ᵀ q) /
/// max(|n'·q|, exp(-m'))`, where k is divided by `√(hidden / heads)`.
///
/// The output is h. The states of mLSTM are `memory [B, heads, hidden / heads, hidden / heads]`, `n [B, heads, hidden /
/// heads]`, `m [B, heads]`. The parameters of sLSTM are `weight [4 hidden, input]`, `bias [4 hidden]`, `recurrent
/// [heads, hidden / heads, 4 hidden / heads]`. The parameters of mLSTM are `q.weight [hidden, input]` and `q.bias`,
/// likewise for `k`, `v` and `o`, and `i.weight [heads, input]` and `i.bias`, likewise for `f`.
///
/// ```
/// use funcify::nn::{Xlstm, XlstmCell};
///
/// let layer = Xlstm { heads: 2, ..Xlstm::new(XlstmCell::Mlstm, 8, 16) }.layer()?;
/// let states: Vec<String> = layer.states.iter().map(ToString::to_string).collect();
/// assert_eq!(states, ["f32[B,2,8,8]", "f32[B,2,8]", "f32[B,2]"]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Xlstm {
    /// The kind of xLSTM cell.
    pub cell: XlstmCell,
    /// The number of input features.
    pub input: usize,
    /// The total number of features of all heads.
    pub hidden: usize,
    /// The number of heads.
    pub heads: usize,
    /// `true` if sequences are `[B,T,F]`, `false` if they are `[T,B,F]`.
    pub batch_first: bool,
    /// The float type of all inputs and outputs.
    pub dtype: DType,
}

/// Computes the stabilised gates `i*` and `f*`, and the new stabiliser `m'`.
fn stabilised_gates(i: Value, f: Value, m: Value) -> (Value, Value, Value) {
    let kept = f.log_sigmoid() + m;
    let next = kept.maximum(i);
    ((i - next).exp(), (kept - next).exp(), next)
}

/// The sequences that the mLSTM loop reads: queries, keys and values of shape `[T,B,heads,..]`, and preactivations of
/// the gates i and f, of shape `[T,B,heads]`.
type MatrixRows = ((Value, Value, Value), (Value, Value));

/// Runs the mLSTM loop. Adds `epsilon`, if given, to the denominator of h. Returns the final values of the memory, n
/// and m, and the values of h, of shape `[T,B,heads,..]`, before the output gate is applied.
pub(super) fn matrix_memory(
    init: (Value, Value, Value),
    rows: MatrixRows,
    epsilon: Option<f64>,
) -> ((Value, Value, Value), Value) {
    scan(init, rows, |(memory, n, m), ((q, k, v), (i, f))| {
        let (i, f, m) = stabilised_gates(i, f, m);
        let (i, f) = (i.unsqueeze(2), f.unsqueeze(2));
        let memory = f.unsqueeze(3) * memory + (i * k).unsqueeze(3) * v.unsqueeze(2);
        let n = f * n + i * k;
        let norm = (n * q).sum(2).abs().maximum((-m).exp());
        let norm = epsilon.map_or(norm, |epsilon| norm + epsilon);
        let h = (q.unsqueeze(3) * memory).sum(2) / norm.unsqueeze(2);
        ((memory, n, m), h)
    })
}

impl Xlstm {
    /// Creates a layer with one head, for f32 sequences of shape `[B,T,F]`.
    pub fn new(cell: XlstmCell, input: usize, hidden: usize) -> Self {
        Xlstm { cell, input, hidden, heads: 1, batch_first: true, dtype: DType::F32 }
    }

    /// Builds the graph of the layer, and lists its states and parameters. Returns an error if a size is 0, if `heads`
    /// does not divide `hidden`, or if the dtype is not a float type.
    #[track_caller]
    pub fn layer(&self) -> Result<Layer> {
        let (name, site) = (if self.cell == XlstmCell::Slstm { "slstm" } else { "mlstm" }, Site::caller());
        check_at_least_one(name, site, &[("input", self.input), ("hidden", self.hidden), ("heads", self.heads)])?;
        check_divided_by_heads(name, site, self.heads, &[("hidden", self.hidden)])?;
        layer(name, self.dtype, self.batch_first, |inputs| match self.cell {
            XlstmCell::Slstm => self.slstm_outputs(inputs),
            XlstmCell::Mlstm => self.mlstm_outputs(inputs),
        })
    }

    fn slstm_outputs(&self, inputs: &Inputs<'_>) -> (Value, Vec<Value>) {
        let (hidden, heads) = (self.hidden, self.heads);
        let size = hidden / heads;
        let xs = inputs.sequence(self.input);
        let state = |name: &str| inputs.state(name, [Dim::from("B"), hidden.into()]);
        let init = [state("h"), state("c"), state("n"), state("m")];
        let driven = super::linear(xs, inputs.parameter("weight", &[4 * hidden, self.input], self.uniform(self.input)));
        let driven = driven + inputs.parameter("bias", &[4 * hidden], Init::Constant(0.0));
        let recurrent = inputs.parameter("recurrent", &[heads, size, 4 * size], self.uniform(size));
        let (last, hs) = scan(init, driven, |[h, c, n, m], x| {
            let by_head = h.reshape([h.dim(0), heads.into(), size.into()]);
            let of_state = by_head.dot_general(recurrent, &[(2, 1)], &[(1, 0)]).move_axis(0, 1);
            let [i, f, z, o] = [0, 1, 2, 3].map(|gate: usize| {
                let of_input = x.slice(1, (gate * hidden) as i64..((gate + 1) * hidden) as i64);
                let of_state = of_state.slice(2, (gate * size) as i64..((gate + 1) * size) as i64);
                of_input + of_state.reshape(h.shape())
            });
            let (i, f, m) = stabilised_gates(i, f, m);
            let (c, n) = (f * c + i * z.tanh(), f * n + i);
            let h = o.sigmoid() * c / n;
            ([h, c, n, m], h)
        });
        (hs, last.to_vec())
    }

    fn mlstm_outputs(&self, inputs: &Inputs<'_>) -> (Value, Vec<Value>) {
        let (hidden, heads) = (self.hidden, self.heads);
        let size = hidden / heads;
        let xs = inputs.sequence(self.input);
        let batch = || Dim::from("B");
        let memory = inputs.state("memory", [batch(), heads.into(), size.into(), size.into()]);
        let n = inputs.state("n", [batch(), heads.into(), size.into()]);
        let m = inputs.state("m", [batch(), heads.into()]);
        let by_head = |name: &str| {
            let value = inputs.affine(xs, name, self.input, hidden);
            value.reshape([xs.dim(0), xs.dim(1), heads.into(), size.into()])
        };
        let [q, k, v, o] = ["q", "k", "v", "o"].map(by_head);
        let [i, f] = ["i", "f"].map(|name| inputs.affine(xs, name, self.input, heads));
        let k = k * (size as f64).sqrt().recip();
        let (last, hs) = matrix_memory((memory, n, m), ((q, k, v), (i, f)), None);
        let hs = (hs * o.sigmoid()).reshape([xs.dim(0), xs.dim(1), hidden.into()]);
        (hs, vec![last.0, last.1, last.2])
    }

    fn uniform(&self, from: usize) -> Init {
        Init::Uniform((from as f64).recip().sqrt())
    }
}
