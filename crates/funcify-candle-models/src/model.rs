//! Defines the structure that all models share: an embedding, a sequence of stateful blocks, and a head.

use super::*;

/// The state of a model after the steps processed so far.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use candle_nn::{VarBuilder, VarMap};
/// use funcify_candle_models::mamba::{Config, Model};
///
/// # let config = Config { d_model: 8, n_layer: 2, vocab_size: 16, pad_vocab_size_multiple: 8 };
/// let vb = VarBuilder::from_varmap(&VarMap::new(), DType::F32, &Device::Cpu);
/// let model = Model::new(&config, vb)?;
/// let mut state = model.zero_state(1)?;
/// let prompt = Tensor::new(&[[3u32, 1, 4]], &Device::Cpu)?;
/// assert_eq!(model.forward(&prompt, &mut state)?.dims(), [1, 3, 16]);
/// let earlier = state.clone(); // to continue from here more than once
/// assert_eq!((earlier.pos, earlier.blocks.len()), (3, 2));
/// # Ok::<(), candle_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct State<B> {
    /// The state of each block.
    pub blocks: Vec<B>,
    /// The number of steps processed so far. (The RWKV models of `candle-transformers` count calls instead.)
    pub pos: usize,
}

/// The parts of a model that depend on the architecture. Every model also has an embedding and a sequence of blocks.
#[doc(hidden)]
pub trait Architecture {
    /// The name of the model in error messages.
    const NAME: &'static str;
    /// The type of the model's blocks.
    type Block: Block;

    /// Returns a block's initial state for `batch` sequences. `zeros` creates zero tensors of the model's dtype.
    fn zero_state(&self, block: &Self::Block, batch: usize, zeros: &Zeros<'_>) -> Result<BlockState<Self>>;

    /// Returns the input of the first block, given the embedded tokens. `pos` is the number of steps processed so far,
    /// including these tokens.
    #[track_caller]
    fn begin(&self, rows: Tensor, _pos: usize) -> Result<Tensor> {
        Ok(rows)
    }

    /// Computes the logits from `xs`, the output of the last block.
    fn logits(&self, embeddings: &Embedding, xs: &Tensor) -> Result<Tensor>;
}

/// A stateful block of a model.
#[doc(hidden)]
pub trait Block {
    /// The state of the block.
    type State;

    /// Runs the block on `xs`, `[batch, steps, features]`. `pos` is the number of steps before `xs`. Returns the output
    /// and the state after the last step.
    #[track_caller]
    fn forward(&self, xs: &Tensor, state: &Self::State, pos: usize) -> Result<(Tensor, Self::State)>;
}

/// A function that creates a tensor of zeros with the given shape.
pub(crate) type Zeros<'a> = dyn Fn(&[usize]) -> Result<Tensor> + 'a;

type BlockState<A> = <<A as Architecture>::Block as Block>::State;

/// A language model of the architecture `A`. Clones share their parameters.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use candle_nn::{VarBuilder, VarMap};
/// use funcify_candle_models::mamba::{Config, Model};
///
/// # let config = Config { d_model: 8, n_layer: 2, vocab_size: 16, pad_vocab_size_multiple: 8 };
/// let vb = VarBuilder::from_varmap(&VarMap::new(), DType::F32, &Device::Cpu);
/// let model = Model::new(&config, vb)?;
/// let mut state = model.zero_state(1)?;
/// let prompt = Tensor::new(&[[3u32, 1, 4]], &Device::Cpu)?;
/// assert_eq!(model.forward(&prompt, &mut state)?.dims(), [1, 3, 16]);
/// let next = Tensor::new(&[[1u32]], &Device::Cpu)?;
/// assert_eq!(model.forward_last(&next, &mut state)?.dims(), [1, 16]);
/// # Ok::<(), candle_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Model<A: Architecture> {
    embeddings: Embedding,
    blocks: Vec<A::Block>,
    own: A,
    dtype: DType,
    device: Device,
}

impl<A: Architecture> Model<A> {
    /// Creates a model with an embedding of shape `[tokens, features]` and `blocks` blocks. The function `block`
    /// creates a block from its index and the `VarBuilder` `layers.pp(index)`. `own` contains all other parts of the
    /// model.
    #[track_caller]
    pub(crate) fn from_parts(
        own: A,
        [tokens, features]: [usize; 2],
        embeddings: VarBuilder<'_>,
        blocks: usize,
        layers: &VarBuilder<'_>,
        block: impl Fn(usize, VarBuilder<'_>) -> Result<A::Block>,
    ) -> Result<Self> {
        let embeddings = candle_nn::embedding(tokens, features, embeddings)?;
        let blocks = (0..blocks).map(|index| block(index, layers.pp(index))).collect::<Result<_>>()?;
        Ok(Model { embeddings, blocks, own, dtype: layers.dtype(), device: layers.device().clone() })
    }

    /// Returns the initial state for `batch` sequences.
    pub fn zero_state(&self, batch: usize) -> Result<State<BlockState<A>>> {
        let zeros = |dims: &[usize]| Tensor::zeros(dims, self.dtype, &self.device);
        let blocks = self.blocks.iter().map(|block| self.own.zero_state(block, batch, &zeros));
        Ok(State { blocks: blocks.collect::<Result<_>>()?, pos: 0 })
    }

    /// Processes the token ids `[batch, steps]`. Returns the logits of the next token for each position, `[batch,
    /// steps, vocabulary]`, and updates the state. If an error occurs, the state is unchanged.
    #[track_caller]
    pub fn forward(&self, ids: &Tensor, state: &mut State<BlockState<A>>) -> Result<Tensor> {
        let xs = self.features(ids, state)?;
        self.own.logits(&self.embeddings, &xs)
    }

    /// Works like [`forward`](Model::forward), but returns only the logits of the last position, `[batch, vocabulary]`.
    /// Use it for generation.
    #[track_caller]
    pub fn forward_last(&self, ids: &Tensor, state: &mut State<BlockState<A>>) -> Result<Tensor> {
        let xs = self.features(ids, state)?;
        self.own.logits(&self.embeddings, &last_row(&xs)?)
    }

    #[track_caller]
    fn features(&self, ids: &Tensor, state: &mut State<BlockState<A>>) -> Result<Tensor> {
        let [_, steps @ (1..)] = *ids.dims() else {
            let sizes: Vec<String> = ids.dims().iter().map(usize::to_string).collect();
            let found = format!("{}[{}]", ids.dtype().as_str(), sizes.join(","));
            let fix = "pass a prompt as `[1, steps]`, and a single token as `[1, 1]`";
            return Err(mismatch(A::NAME, "the ids", "[batch, steps] with at least one step", found, fix));
        };
        if self.blocks.len() != state.blocks.len() {
            let (expected, found) = (self.blocks.len().to_string(), state.blocks.len());
            return Err(mismatch(A::NAME, "the blocks of the state", &expected, found, "start with `zero_state`"));
        }
        let mut next = State { blocks: Vec::with_capacity(self.blocks.len()), pos: state.pos + steps };
        let mut xs = self.own.begin(self.embeddings.forward(ids)?, next.pos)?;
        for (block, before) in self.blocks.iter().zip(&state.blocks) {
            let (ys, after) = block.forward(&xs, before, state.pos)?;
            xs = ys;
            next.blocks.push(after);
        }
        *state = next;
        Ok(xs)
    }
}

/// Computes the logits with a tied head, which uses the embedding as its weights.
pub(crate) fn tied_logits(embeddings: &Embedding, xs: &Tensor) -> Result<Tensor> {
    Linear::new(embeddings.embeddings().clone(), None).forward(xs)
}

/// Compiles a graph for the device of the parameters. All blocks of the model share the program.
#[track_caller]
pub(crate) fn compile(graph: funcify_core::Result<Graph>, vb: &VarBuilder<'_>) -> Result<Arc<Differentiable>> {
    let graph = graph.map_err(into_candle_error)?;
    Differentiable::compile(&graph, &Candle::new(vb.device().clone())).map(Arc::new).map_err(into_candle_error)
}

/// Returns the number of rows of an embedding: `size`, rounded up to a multiple of `multiple`.
#[track_caller]
pub(crate) fn padded_vocabulary(model: &str, size: usize, multiple: usize) -> Result<usize> {
    match multiple {
        0 => Err(mismatch(model, "`pad_vocab_size_multiple`", "1 or more", 0, "set it to 1 for no padding")),
        _ => Ok(size.next_multiple_of(multiple)),
    }
}

/// Returns the weight, `[features, 1, width]`, and the bias of a depthwise convolution. New parameters are
/// initialised as in PyTorch.
pub(crate) fn convolution_parameters(features: usize, width: usize, vb: &VarBuilder<'_>) -> Result<(Tensor, Tensor)> {
    let bound = (width as f64).recip().sqrt();
    let uniform = Init::Uniform { lo: -bound, up: bound };
    let weight = vb.get_with_hints((features, 1, width), "weight", uniform)?;
    Ok((weight, vb.get_with_hints(features, "bias", uniform)?))
}
