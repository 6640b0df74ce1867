//! Elman networks, GRUs and LSTMs, optionally stacked and bidirectional, with PyTorch's parameters.

use funcify_core::ops::scan::{ScanOptions, scan_with};
use funcify_core::stack;

use super::*;

/// The cell of a recurrent layer. It updates the state h from the input x. The weight W and the bias b apply to the
/// input, and the weight U and the bias c apply to the state.
///
/// ```
/// use funcify::nn::{Cell, Recurrent};
///
/// // An LSTM has the states `h` and `c`.
/// assert_eq!(Recurrent::new(Cell::Lstm, 3, 8).layer()?.states.len(), 2);
/// assert_eq!(Recurrent::new(Cell::Rnn, 3, 8).layer()?.states.len(), 1);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cell {
    /// `h' = tanh(x Wᵀ + b + h Uᵀ + c)` (Elman 1990).
    Rnn,
    /// `h' = max(x Wᵀ + b + h Uᵀ + c, 0)`: PyTorch's `RNN` with `nonlinearity="relu"` (Le et al. 2015).
    ReluRnn,
    /// `n = tanh(x Wᵀ + b + r (h Uᵀ + c))` and `h' = (1 - z) n + z h`, with gates r and z (Cho et al. 2014, in
    /// PyTorch's form).
    Gru,
    /// `c' = f c + i g` and `h' = o tanh(c')`, with the memory cell c and gates i, f, g and o (Hochreiter and
    /// Schmidhuber 1997).
    Lstm,
}

impl Cell {
    /// Returns the number of gates. Each weight has `hidden` rows per gate.
    fn gates(self) -> usize {
        match self {
            Cell::Rnn | Cell::ReluRnn => 1,
            Cell::Gru => 3,
            Cell::Lstm => 4,
        }
    }
}

/// A recurrent layer, with PyTorch's parameters and semantics.
///
/// The states have the shape `[layers * directions, B, hidden]`: `h` and, for an LSTM, also `c`. Parameters have the
/// names, shapes and gate order of PyTorch and of candle_nn: `weight_ih_l0 [gates * hidden, input]`, `weight_hh_l0`,
/// `bias_ih_l0`, `bias_hh_l0`. The names for the backward direction end with `_reverse`. A single matrix product before
/// the loop computes the input projections of all steps.
///
/// ```
/// use funcify::nn::{Cell, Recurrent};
///
/// let lstm = Recurrent::new(Cell::Lstm, 3, 8).layer()?;
/// assert_eq!(lstm.graph.output_type(0).to_string(), "f32[B,T,8]");
/// assert_eq!(lstm.parameters[0].name, "weight_ih_l0");
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Recurrent {
    /// The kind of cell.
    pub cell: Cell,
    /// The number of input features.
    pub input: usize,
    /// The number of features of the state.
    pub hidden: usize,
    /// The number of stacked layers.
    pub layers: usize,
    /// `true` if each layer also runs over the reversed sequence. The outputs of both directions are concatenated along
    /// the feature axis, forward outputs first.
    pub bidirectional: bool,
    /// `true` if the layer has biases.
    pub bias: bool,
    /// `true` if sequences are `[B,T,F]`, `false` if they are `[T,B,F]`.
    pub batch_first: bool,
    /// The float type of all inputs and outputs.
    pub dtype: DType,
}

impl Recurrent {
    /// Creates a single unidirectional layer with biases, for f32 sequences of shape `[B,T,F]`.
    pub fn new(cell: Cell, input: usize, hidden: usize) -> Self {
        let (layers, bidirectional, bias, batch_first) = (1, false, true, true);
        Recurrent { cell, input, hidden, layers, bidirectional, bias, batch_first, dtype: DType::F32 }
    }

    /// Builds the graph of the layer, and lists its states and parameters. Returns an error if a size is 0 or the dtype
    /// is not a float type.
    #[track_caller]
    pub fn layer(&self) -> Result<Layer> {
        let name = match self.cell {
            Cell::Rnn => "rnn",
            Cell::ReluRnn => "relu_rnn",
            Cell::Gru => "gru",
            Cell::Lstm => "lstm",
        };
        let options = [("input", self.input), ("hidden", self.hidden), ("layers", self.layers)];
        check_at_least_one(name, Site::caller(), &options)?;
        layer(name, self.dtype, self.batch_first, |inputs| self.outputs(inputs))
    }

    fn outputs(&self, inputs: &Inputs<'_>) -> (Value, Vec<Value>) {
        let directions = if self.bidirectional { ["", "_reverse"].as_slice() } else { &[""] };
        let mut xs = inputs.sequence(self.input);
        let names: &[&str] = if self.cell == Cell::Lstm { &["h", "c"] } else { &["h"] };
        let rows = Dim::from(self.layers * directions.len());
        let state = |name: &&str| inputs.state(name, [rows.clone(), Dim::from("B"), Dim::from(self.hidden)]);
        let states: Vec<Value> = names.iter().map(state).collect();
        let mut last: Vec<Vec<Value>> = vec![Vec::new(); states.len()];
        let mut features = self.input;
        for number in 0..self.layers {
            let mut ys = Vec::new();
            for (direction, suffix) in directions.iter().enumerate() {
                let weights = self.weights(inputs, &format!("l{number}{suffix}"), features);
                let row = (number * directions.len() + direction) as i64;
                let init = states.iter().map(|state| state.index(0, row)).collect();
                let (finals, trace) = self.run(xs, init, &weights, direction == 1);
                last.iter_mut().zip(finals).for_each(|(last, state)| last.push(state));
                ys.push(trace);
            }
            xs = if ys.len() == 1 { ys[0] } else { concat(&ys, 2) };
            features = self.hidden * directions.len();
        }
        (xs, last.iter().map(|states| stack(states, 0)).collect())
    }

    fn weights(&self, inputs: &Inputs<'_>, suffix: &str, features: usize) -> Weights {
        let rows = self.cell.gates() * self.hidden;
        let init = || Init::Uniform((self.hidden as f64).recip().sqrt());
        let bias = |name: &str| self.bias.then(|| inputs.parameter(&format!("{name}_{suffix}"), &[rows], init()));
        Weights {
            of_input: inputs.parameter(&format!("weight_ih_{suffix}"), &[rows, features], init()),
            of_state: inputs.parameter(&format!("weight_hh_{suffix}"), &[rows, self.hidden], init()),
            bias_input: bias("bias_ih"),
            bias_state: bias("bias_hh"),
        }
    }

    /// Runs one direction of one layer over a sequence of shape `[T,B,F]`. Returns the last states, and h after each
    /// step.
    fn run(&self, xs: Value, init: Vec<Value>, weights: &Weights, reverse: bool) -> (Vec<Value>, Value) {
        let add = |x: Value, bias: Option<Value>| bias.map_or(x, |bias| x + bias);
        let mut driven = add(super::linear(xs, weights.of_input), weights.bias_input);
        let mut bias_state = weights.bias_state;
        if self.cell != Cell::Gru {
            driven = add(driven, bias_state.take());
        }
        let of_state = weights.of_state.t();
        let options = if reverse { ScanOptions::new().reverse() } else { ScanOptions::new() };
        scan_with(options, init, driven, |state, x| {
            let gate = |gates: Value, number: usize| {
                gates.slice(1, (number * self.hidden) as i64..((number + 1) * self.hidden) as i64)
            };
            let recurrent = add(state[0].matmul(of_state), bias_state);
            let next = match self.cell {
                Cell::Rnn => vec![(x + recurrent).tanh()],
                Cell::ReluRnn => vec![(x + recurrent).relu()],
                Cell::Gru => {
                    let [r, z] = [0, 1].map(|number| (gate(x, number) + gate(recurrent, number)).sigmoid());
                    let n = (gate(x, 2) + r * gate(recurrent, 2)).tanh();
                    vec![n + z * (state[0] - n)]
                }
                Cell::Lstm => {
                    let gates = x + recurrent;
                    let [i, f, o] = [0, 1, 3].map(|number| gate(gates, number).sigmoid());
                    let c = f * state[1] + i * gate(gates, 2).tanh();
                    vec![o * c.tanh(), c]
                }
            };
            let h = next[0];
            (next, h)
        })
    }
}

/// The parameters of one direction of one layer.
struct Weights {
    of_input: Value,
    of_state: Value,
    bias_input: Option<Value>,
    bias_state: Option<Value>,
}
