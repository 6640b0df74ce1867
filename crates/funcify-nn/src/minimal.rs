//! minGRU and minLSTM: recurrent layers whose gates depend only on the input.

use super::*;

/// The cell of a minimal recurrent layer. It updates the state h from the input x, with the weights `W` and the biases
/// b, c and d.
///
/// ```
/// use funcify::nn::{Minimal, MinimalCell};
///
/// let layer = Minimal::new(MinimalCell::Lstm, 8, 16).layer()?;
/// assert_eq!(layer.graph.name(), "min_lstm");
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MinimalCell {
    /// `z = sigmoid(x W_zᵀ + b)`, `h' = (1 - z) h + z (x W_hᵀ + c)`.
    Gru,
    /// `f = sigmoid(x W_fᵀ + b)`, `i = sigmoid(x W_iᵀ + c)`, `h' = (f h + i (x W_hᵀ + d)) / (f + i)`.
    Lstm,
}

/// The minGRU and minLSTM layers (Feng et al. 2024, Were RNNs All We Needed?), without the log-space form of the
/// paper's appendix.
///
/// No gate reads the state, so the recurrence is affine and can run as an associative scan. The state `h` has shape
/// `[B, hidden]`. Each linear map has a weight and a bias, such as `linear_z.weight [hidden, input]` and
/// `linear_z.bias`. The maps of minGRU are `linear_z` and `linear_h`; those of minLSTM are `linear_f`, `linear_i` and
/// `linear_h`.
///
/// ```
/// use funcify::nn::{Minimal, MinimalCell};
///
/// let layer = Minimal::new(MinimalCell::Gru, 8, 16).layer()?;
/// assert_eq!(layer.states[0].to_string(), "f32[B,16]");
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Minimal {
    /// The kind of cell.
    pub cell: MinimalCell,
    /// The number of input features.
    pub input: usize,
    /// The number of features of the state, which is also the output.
    pub hidden: usize,
    /// `true` to run an associative scan of logarithmic depth, `false` to run step by step, which needs less memory.
    pub associative: bool,
    /// `true` if sequences are `[B,T,F]`, `false` if they are `[T,B,F]`.
    pub batch_first: bool,
    /// The float type of all inputs and outputs.
    pub dtype: DType,
}

impl Minimal {
    /// Creates a layer that runs an associative scan over f32 sequences of shape `[B,T,F]`.
    pub fn new(cell: MinimalCell, input: usize, hidden: usize) -> Self {
        Minimal { cell, input, hidden, associative: true, batch_first: true, dtype: DType::F32 }
    }

    /// Builds the graph of the layer, and lists its states and parameters. Returns an error if a size is 0 or the dtype
    /// is not a float type.
    #[track_caller]
    pub fn layer(&self) -> Result<Layer> {
        let name = match self.cell {
            MinimalCell::Gru => "min_gru",
            MinimalCell::Lstm => "min_lstm",
        };
        check_at_least_one(name, Site::caller(), &[("input", self.input), ("hidden", self.hidden)])?;
        layer(name, self.dtype, self.batch_first, |inputs| self.outputs(inputs))
    }

    fn outputs(&self, inputs: &Inputs<'_>) -> (Value, Vec<Value>) {
        let xs = inputs.sequence(self.input);
        let h = inputs.state("h", [Dim::from("B"), self.hidden.into()]);
        let of_input = |name: &str| inputs.affine(xs, name, self.input, self.hidden);
        let (kept, added) = match self.cell {
            MinimalCell::Gru => {
                let z = of_input("linear_z").sigmoid();
                (1.0 - z, z)
            }
            MinimalCell::Lstm => {
                let (f, i) = (of_input("linear_f").sigmoid(), of_input("linear_i").sigmoid());
                (f / (f + i), i / (f + i))
            }
        };
        let (last, hs) = affine_scan(h, kept, added * of_input("linear_h"), self.associative);
        (hs, vec![last])
    }
}
