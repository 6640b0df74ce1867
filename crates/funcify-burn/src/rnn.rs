//! Runs Burn's own recurrent modules over whole sequences. Burn's autodiff records each run as a single op.

use burn::module::Module;
use burn::nn::{BiGru, BiLstm, BiRnn, Gru, Lstm, LstmState, Rnn, RnnState};
use burn::tensor::{Tensor, s};
use funcify_core::error::{Place, Result, Site};

use crate::capture::Scan;
use crate::plugin::Tensors;

/// Runs the `forward` method of Burn's recurrent modules ([`Lstm`], [`BiLstm`], [`Gru`], [`BiGru`], [`Rnn`] and
/// [`BiRnn`]) as one compiled loop.
///
/// Burn's `forward` records every step on the tape, and the time of its backward pass grows quadratically with the
/// number of steps. This trait instead records the module's own `forward` for one step, as the body of a loop
/// ([`scan`](crate::scan())). So the module's parameters and all options of its config apply unchanged, including the
/// activations. Arguments and results are the same as those of `forward`.
///
/// ```
/// # #[cfg(feature = "flex")] {
/// use burn::nn::LstmConfig;
/// use burn::tensor::{Device, Distribution, Tensor};
/// use funcify_burn::RnnExt;
///
/// let device = Device::flex().autodiff();
/// let lstm = LstmConfig::new(3, 8, true).init(&device);
/// let xs = Tensor::<3>::random([4, 100, 3], Distribution::Default, &device);
/// // was: let (ys, state) = lstm.forward(xs, None);
/// let (ys, state) = lstm.scan(xs, None)?;
/// assert_eq!((ys.dims(), state.cell.dims()), ([4, 100, 8], [4, 8]));
/// let gradients = ys.sum().backward();
/// assert!(lstm.cell_gate.hidden_transform.weight.grad(&gradients).is_some());
/// # }
/// # Ok::<(), funcify::Error>(())
/// ```
pub trait RnnExt {
    /// The state that `forward` accepts.
    type State;
    /// The output of `forward`.
    type Output;

    /// Runs the module over a sequence, with the same results as `forward`. Starts from `state`, or from zeros if it is
    /// `None`.
    ///
    /// # Errors
    /// Returns `Type` if the sequence or the state has the wrong sizes. Also returns the errors of
    /// [`scan`](crate::scan()): `Call` for tensors on different devices, and `Unsupported` for an activation with an op
    /// that funcify cannot translate; the error names the op.
    #[track_caller]
    fn scan(&self, batched_input: Tensor<3>, state: Option<Self::State>) -> Result<Self::Output>;
}

/// A recurrent module that computes the next state from the state and the input of a step.
trait Cell: Module {
    /// The state of the cell.
    type State: State;

    /// Returns the number of input features and the number of state features.
    fn sizes(&self) -> [usize; 2];

    /// Returns the next state and the output of one step, for the input `x [batch, features]`. Calls the module's
    /// `forward` on a sequence of one step.
    fn step(&self, x: Tensor<2>, state: Self::State) -> (Self::State, Tensor<2>);
}

/// The state of a cell, which consists of one or more tensors.
trait State: Tensors {
    /// Returns a state in which every tensor is a copy of `tensor`.
    fn filled_with(tensor: Tensor<2>) -> Self;

    /// Returns the tensors of the state.
    fn parts(&self) -> Vec<&Tensor<2>>;
}

impl State for LstmState<2> {
    fn filled_with(tensor: Tensor<2>) -> Self {
        LstmState::new(tensor.clone(), tensor)
    }

    fn parts(&self) -> Vec<&Tensor<2>> {
        vec![&self.hidden, &self.cell]
    }
}

impl State for Tensor<2> {
    fn filled_with(tensor: Tensor<2>) -> Self {
        tensor
    }

    fn parts(&self) -> Vec<&Tensor<2>> {
        vec![self]
    }
}

impl Cell for Lstm {
    type State = LstmState<2>;

    fn sizes(&self) -> [usize; 2] {
        [self.input_gate.input_transform.weight.dims()[0], self.d_hidden]
    }

    fn step(&self, x: Tensor<2>, state: LstmState<2>) -> (LstmState<2>, Tensor<2>) {
        let (_, next) = self.forward(one_step(x, self.batch_first), Some(state));
        let y = next.hidden.clone();
        (next, y)
    }
}

impl Cell for Gru {
    type State = Tensor<2>;

    fn sizes(&self) -> [usize; 2] {
        [self.update_gate.input_transform.weight.dims()[0], self.d_hidden]
    }

    fn step(&self, x: Tensor<2>, state: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
        let next: Tensor<2> = self.forward(one_step(x, true), Some(state)).squeeze_dim(1);
        (next.clone(), next)
    }
}

impl Cell for Rnn {
    type State = Tensor<2>;

    fn sizes(&self) -> [usize; 2] {
        [self.gate.input_transform.weight.dims()[0], self.d_hidden]
    }

    fn step(&self, x: Tensor<2>, state: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
        let (_, next) = self.forward(one_step(x, self.batch_first), Some(RnnState::new(state)));
        (next.hidden.clone(), next.hidden)
    }
}

/// Converts the input of a step to a sequence with one step.
fn one_step(x: Tensor<2>, batch_first: bool) -> Tensor<3> {
    x.unsqueeze_dim(if batch_first { 1 } else { 0 })
}

/// Swaps the batch axis and the step axis if `batch_first` is set. The swap converts a batch-first sequence to a
/// steps-first one, and vice versa.
fn steps_first(sequence: Tensor<3>, batch_first: bool) -> Tensor<3> {
    if batch_first { sequence.swap_dims(0, 1) } else { sequence }
}

/// Runs a cell over a sequence in one direction, from the last step to the first if `is_reversed`. Returns the outputs
/// and the final state.
#[track_caller]
fn scan_one_way<M: Cell>(
    cell: &M,
    sequence: Tensor<3>,
    batch_first: bool,
    state: Option<M::State>,
    is_reversed: bool,
) -> Result<(Tensor<3>, M::State)> {
    let rows = steps_first(sequence, batch_first);
    let [steps, batch, _] = rows.dims();
    let [input, hidden] = cell.sizes();
    check_sizes("the sequence, steps first", &rows, [steps, batch, input])?;
    let zeros = || M::State::filled_with(Tensor::zeros([batch, hidden], (&rows.device(), rows.dtype())));
    let state = state.unwrap_or_else(zeros);
    for part in state.parts() {
        check_sizes("the state", part, [batch, hidden])?;
    }
    let options = if is_reversed { Scan::new().reverse() } else { Scan::new() };
    let (last, ys) = options.run(cell, state, rows, |cell, state, x| cell.step(x, state))?;
    Ok((steps_first(ys, batch_first), last))
}

/// Runs the first cell over the sequence from the first step to the last, and the second cell from the last step to the
/// first. Returns the concatenated outputs of both cells, and their final states.
#[track_caller]
fn scan_both_ways<M: Cell>(
    cells: [&M; 2],
    batched_input: Tensor<3>,
    batch_first: bool,
    states: [Option<M::State>; 2],
) -> Result<(Tensor<3>, [M::State; 2])> {
    let rows = steps_first(batched_input, batch_first);
    let [of_forward, of_reverse] = states;
    let (forward, last_of_forward) = scan_one_way(cells[0], rows.clone(), false, of_forward, false)?;
    let (reverse, last_of_reverse) = scan_one_way(cells[1], rows, false, of_reverse, true)?;
    let ys = Tensor::cat(vec![forward, reverse], 2);
    Ok((steps_first(ys, batch_first), [last_of_forward, last_of_reverse]))
}

/// Splits a stacked state into the states of the two directions. Returns two `None`s if `state` is `None`.
#[track_caller]
fn split_directions(state: Option<Tensor<3>>) -> Result<[Option<Tensor<2>>; 2]> {
    if let Some(state) = &state {
        let [_, batch, hidden] = state.dims();
        check_sizes("the state", state, [2, batch, hidden])?;
    }
    Ok([0, 1].map(|direction| state.clone().map(|state| state.slice(s![direction]).squeeze_dim(0))))
}

/// Returns an error that names `component` if the tensor does not have these sizes.
#[track_caller]
fn check_sizes<const D: usize>(component: &str, tensor: &Tensor<D>, sizes: [usize; D]) -> Result<()> {
    if tensor.dims() == sizes {
        return Ok(());
    }
    let fix = "pass the sizes that the module's `forward` accepts";
    let at = Place::new("scan", Site::caller());
    Err(at.mismatch(component, format!("{sizes:?}"), format!("{:?}", tensor.dims()), fix))
}

impl RnnExt for Lstm {
    type State = LstmState<2>;
    type Output = (Tensor<3>, LstmState<2>);

    fn scan(&self, batched_input: Tensor<3>, state: Option<LstmState<2>>) -> Result<Self::Output> {
        scan_one_way(self, batched_input, self.batch_first, state, self.reverse)
    }
}

impl RnnExt for Gru {
    type State = Tensor<2>;
    type Output = Tensor<3>;

    fn scan(&self, batched_input: Tensor<3>, state: Option<Tensor<2>>) -> Result<Tensor<3>> {
        Ok(scan_one_way(self, batched_input, true, state, false)?.0)
    }
}

impl RnnExt for Rnn {
    type State = RnnState<2>;
    type Output = (Tensor<3>, RnnState<2>);

    fn scan(&self, batched_input: Tensor<3>, state: Option<RnnState<2>>) -> Result<Self::Output> {
        let state = state.map(|state| state.hidden);
        let (ys, last) = scan_one_way(self, batched_input, self.batch_first, state, self.reverse)?;
        Ok((ys, RnnState::new(last)))
    }
}

impl RnnExt for BiLstm {
    type State = LstmState<3>;
    type Output = (Tensor<3>, LstmState<3>);

    fn scan(&self, batched_input: Tensor<3>, state: Option<LstmState<3>>) -> Result<Self::Output> {
        let (cell, hidden) = state.map(LstmState::unpack).unzip();
        let [cells, hiddens] = [split_directions(cell)?, split_directions(hidden)?];
        let states = [0, 1].map(|direction: usize| {
            let parts = cells[direction].clone().zip(hiddens[direction].clone());
            parts.map(|(cell, hidden)| LstmState::new(cell, hidden))
        });
        let cells = [&self.forward, &self.reverse];
        let (ys, last) = scan_both_ways(cells, batched_input, self.batch_first, states)?;
        Ok((ys, LstmState::stack(last.into(), 0)))
    }
}

impl RnnExt for BiGru {
    type State = Tensor<3>;
    type Output = (Tensor<3>, Tensor<3>);

    fn scan(&self, batched_input: Tensor<3>, state: Option<Tensor<3>>) -> Result<Self::Output> {
        let cells = [&self.forward, &self.reverse];
        let (ys, last) = scan_both_ways(cells, batched_input, self.batch_first, split_directions(state)?)?;
        Ok((ys, Tensor::stack(last.into(), 0)))
    }
}

impl RnnExt for BiRnn {
    type State = RnnState<3>;
    type Output = (Tensor<3>, RnnState<3>);

    fn scan(&self, batched_input: Tensor<3>, state: Option<RnnState<3>>) -> Result<Self::Output> {
        let (cells, states) = ([&self.forward, &self.reverse], split_directions(state.map(|state| state.hidden))?);
        let (ys, last) = scan_both_ways(cells, batched_input, self.batch_first, states)?;
        Ok((ys, RnnState::new(Tensor::stack(last.into(), 0))))
    }
}
