//! Runs a recurrent network of `candle_nn` over a whole sequence as a single node of Candle's graph.

use candle_core::{Result, Tensor};
use candle_nn::rnn::{GRUState, LSTMState, RNN};

use crate::closures::scan::{ScanOptions, run};
use crate::tree::TensorTree;

/// The state of a recurrent network after a step. It contains the output of that step.
///
/// ```
/// use candle_core::{Device, Result, Tensor};
/// use candle_nn::rnn::GRUState;
/// use funcify_candle::RnnState;
///
/// # fn main() -> candle_core::Result<()> {
/// let state = GRUState { h: Tensor::zeros((2, 4), candle_core::DType::F32, &Device::Cpu)? };
/// assert_eq!(state.output().dims(), [2, 4]);
/// # Ok(())
/// # }
/// ```
pub trait RnnState: TensorTree {
    /// Returns the output of the step, with shape `[batch, hidden]`.
    fn output(&self) -> &Tensor;
}

impl RnnState for LSTMState {
    fn output(&self) -> &Tensor {
        &self.h
    }
}

impl RnnState for GRUState {
    fn output(&self) -> &Tensor {
        &self.h
    }
}

/// Provides replacements for the methods `seq` and `seq_init` of [`RNN`]. Each replacement runs as a single node of
/// Candle's graph, and returns the outputs, with shape `[batch, steps, hidden]`, and the last state.
///
/// Candle's `seq` records every step. Its backward pass recurses through all steps and, if the input has a gradient,
/// takes time quadratic in the number of steps. The backward pass of this trait's methods reruns segments of steps
/// instead, as in [`scan`](crate::scan). (`GRU::states_to_tensor` concatenates the steps to `[batch, steps * hidden]`.
/// The methods of this trait return outputs with a separate step axis, for all networks.)
///
/// ```
/// use candle_core::{DType, Device, Result, Tensor};
/// use candle_nn::{LSTMConfig, RNN, VarBuilder, VarMap};
/// use funcify_candle::RnnExt;
///
/// # fn main() -> Result<()> {
/// let vars = VarMap::new();
/// let lstm = candle_nn::lstm(3, 4, LSTMConfig::default(), VarBuilder::from_varmap(&vars, DType::F32, &Device::Cpu))?;
/// let xs = Tensor::randn(0f32, 1.0, (2, 5, 3), &Device::Cpu)?;
/// // was: let hs = lstm.states_to_tensor(&lstm.seq(&xs)?)?;
/// let (hs, last) = lstm.scan(&xs)?;
/// assert_eq!(hs.dims(), [2, 5, 4]);
/// assert_eq!(hs.sum_all()?.backward()?.get_ids().count(), 4); // two weights and two biases
/// # let _ = last;
/// # Ok(())
/// # }
/// ```
pub trait RnnExt: RNN {
    /// Runs the network over `xs`, with shape `[batch, steps, features]`, starting from the zero state.
    #[track_caller]
    fn scan(&self, xs: &Tensor) -> Result<(Tensor, Self::State)>;

    /// Runs the network over `xs`, with shape `[batch, steps, features]`, starting from the given state. The `axis` of
    /// the options is ignored.
    ///
    /// ```
    /// use candle_core::{DType, Device, Result, Tensor};
    /// use candle_nn::{GRUConfig, RNN, VarBuilder, VarMap};
    /// use funcify_candle::{RnnExt, ScanOptions};
    ///
    /// # fn main() -> candle_core::Result<()> {
    /// let vars = VarMap::new();
    /// let gru = candle_nn::gru(3, 4, GRUConfig::default(), VarBuilder::from_varmap(&vars, DType::F32, &Device::Cpu))?;
    /// let xs = Tensor::randn(0f32, 1.0, (2, 5, 3), &Device::Cpu)?;
    /// let (hs, last) = gru.scan_init(ScanOptions::new().reverse(), &xs, &gru.zero_state(2)?)?;
    /// assert_eq!((hs.dims(), last.h().dims()), ([2, 5, 4].as_slice(), [2, 4].as_slice()));
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    fn scan_init(&self, options: ScanOptions, xs: &Tensor, init: &Self::State) -> Result<(Tensor, Self::State)>;
}

impl<R: RNN + Clone + Send + Sync + 'static> RnnExt for R
where
    R::State: RnnState,
{
    #[track_caller]
    fn scan(&self, xs: &Tensor) -> Result<(Tensor, Self::State)> {
        let init = self.zero_state(xs.dim(0)?)?;
        self.scan_init(ScanOptions::new(), xs, &init)
    }

    #[track_caller]
    fn scan_init(&self, options: ScanOptions, xs: &Tensor, init: &Self::State) -> Result<(Tensor, Self::State)> {
        xs.dims3()?;
        let (cell, at) = (self.clone(), crate::autodiff::node::place("RNN::scan"));
        let step = move |state: R::State, x: Tensor, ()| {
            let next = cell.step(&x, &state)?;
            let y = next.output().clone();
            Ok((next, y))
        };
        let (last, hs) = run(at, &options.axis(1), init, xs, &(), step)?;
        Ok((hs, last))
    }
}
