//! Turns a closure on Burn tensors into a graph.

use funcify_core::graph::at_site;

use super::import::import;
use super::record::{Record, device_of, type_of};
use super::recorded::Closure;
use super::weights::{Weights, check_training};
use super::*;

/// Records a closure on Burn tensors as a funcify graph: `results = body(weights, arguments)`.
///
/// The graph is specialised to the arguments' shapes; their elements are ignored. The graph's inputs are the weights
/// that the closure uses, named after the module's fields, followed by the arguments, named `x`, `x_1`, `x_2` and so
/// on. The graph runs on every backend of funcify, and can be printed, differentiated and batched like any other graph.
/// [`crate::scan`] explains why the closure receives its module as an argument.
///
/// ```
/// # #[cfg(feature = "flex")] {
/// use burn::nn::LinearConfig;
/// use burn::tensor::{Device, Tensor};
///
/// let device = Device::flex();
/// let linear = LinearConfig::new(3, 2).init(&device);
/// let x = Tensor::<2>::ones([5, 3], &device);
/// let traced = funcify_burn::trace(&linear, (x.clone(),), |linear, (x,)| linear.forward(x).tanh())?;
/// assert_eq!(traced.graph().input_name(0), "weight");
/// assert_eq!(traced.graph().output_type(0).to_string(), "f32[5,2]");
/// let y: Tensor<2> = traced.call(&linear, (x,))?;
/// # }
/// # Ok::<(), funcify::Error>(())
/// ```
///
/// # Errors
/// Returns the errors of [`crate::scan`].
#[track_caller]
pub fn trace<W: Weights, A: Tensors, R: Tensors>(
    weights: W,
    arguments: A,
    body: impl Fn(W::Inside, A) -> R,
) -> Result<Trace> {
    let line = Location::caller();
    let at = Place::new("trace", Site::Rust(line));
    let given = weights.tensors(&at)?;
    let arguments = leaves_of(arguments);
    let of_weights = given.iter().map(|(name, tensor)| type_of(&at, &format!("weight `{name}`"), tensor, false));
    let of_arguments =
        arguments.iter().enumerate().map(|(index, it)| type_of(&at, &format!("argument {index}"), it, false));
    let types = of_weights.chain(of_arguments).collect::<Result<Vec<TensorType>>>()?;
    let device = device_of(given.iter().map(|(_, tensor)| tensor).chain(&arguments));
    let all = given.iter().map(|(_, tensor)| tensor).chain(&arguments);
    check_training(&at, &weights, all, "trace it without autodiff: pass `&module.valid()` and plain arguments")?;
    let Some(device) = device else {
        return Err(at.mismatch("the closure", "a weight or an argument", "none", "pass an argument"));
    };
    let body = |device: &Device, tensors: Vec<AnyTensor>| {
        let mut tensors = tensors.into_iter();
        let inside = weights.inside(&at, device, &mut tensors)?;
        Ok(leaves_of(body(inside, structure(&at, "argument", tensors.collect())?)))
    };
    let closure = Closure { line, at: &at, device: &device, types: &types, body: &body };
    let device = closure.device_for_graph()?;
    let closure = Closure { device: &device, ..closure };
    let recording = closure.record()?;
    closure.check(&recording)?;
    let record = recording.record;
    let used = record.used_inputs();
    let weight_names = given.into_iter().map(|(name, _)| name).collect();
    let graph = graph(&at, &record, &types, weight_names, &used).map_err(|error| for_caller(&at, error))?;
    Ok(Trace::new(Arc::new(Differentiable::new(&graph)), used))
}

fn graph(at: &Place, record: &Record, types: &[TensorType], weights: Vec<String>, used: &[bool]) -> Result<Graph> {
    let count = weights.len();
    let (mut names, deferred) = (distinct_names(weights), DeferredError::default());
    let graph = Graph::build("traced", |g| {
        let mut inputs = Vec::with_capacity(types.len());
        for (index, ty) in types.iter().enumerate() {
            let name = if index < count { names.0[index].clone() } else { names.add("x") };
            inputs.push((index >= count || used[index]).then(|| g.input(&name, ty)));
        }
        let any = inputs.iter().flatten().copied().next();
        let inputs: Vec<Value> = inputs.iter().filter_map(|input| input.or(any)).collect();
        deferred.unwrap_or_keep(at_site(at.site, || import(at, record, &inputs)), Vec::new)
    });
    deferred.into_result(graph)
}

/// A closure recorded as a graph: see [`trace`].
///
/// ```
/// # #[cfg(feature = "flex")] {
/// use burn::nn::LinearConfig;
/// use burn::tensor::{Device, Tensor};
///
/// let device = Device::flex();
/// let linear = LinearConfig::new(3, 2).init(&device);
/// let x = Tensor::<2>::ones([5, 3], &device);
/// let traced = funcify_burn::trace(&linear, x.clone(), |linear, x| linear.forward(x))?;
///
/// let y: Tensor<2> = traced.call(&linear, x)?;
/// assert_eq!(y.dims(), [5, 2]);
/// println!("{}", traced.graph());
/// # }
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Debug)]
pub struct Trace {
    function: Arc<Differentiable>,
    /// One flag per weight: `true` if the closure uses it. Only the used weights are inputs of the graph.
    used: Vec<bool>,
}

impl Trace {
    pub(super) fn new(function: Arc<Differentiable>, used: Vec<bool>) -> Self {
        Trace { function, used }
    }

    /// Returns the recorded graph.
    pub fn graph(&self) -> &Graph {
        self.function.graph()
    }

    /// Returns the function that runs the graph. It takes the weights that the closure uses, and then the closure's own
    /// arguments.
    pub fn function(&self) -> &Differentiable {
        &self.function
    }

    /// Runs the graph on weights and arguments, as one op of Burn's autodiff. The weights may be those passed to
    /// [`trace`], or others of the same types.
    ///
    /// ```
    /// # #[cfg(feature = "flex")] {
    /// use burn::nn::LinearConfig;
    /// use burn::tensor::{Device, Tensor};
    ///
    /// let device = Device::flex();
    /// let linear = LinearConfig::new(3, 2).init(&device);
    /// let x = Tensor::<2>::ones([5, 3], &device);
    /// let traced = funcify_burn::trace(&linear, x.clone(), |linear, x| linear.forward(x))?;
    ///
    /// let other = LinearConfig::new(3, 2).init(&device); // other weights of the same types
    /// let y: Tensor<2> = traced.call(&other, x)?;
    /// assert_eq!(y.dims(), [5, 2]);
    /// # }
    /// # Ok::<(), funcify::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`Differentiable::call`].
    #[track_caller]
    pub fn call<R: Tensors>(&self, weights: impl Weights, arguments: impl Tensors) -> Result<R> {
        let at = Place::new(self.graph().name(), Site::caller());
        let mut tensors = self.weights_of(&at, weights)?;
        arguments.into_leaves(&mut tensors);
        structure(&at, "result", self.function.run(&at, tensors)?)
    }

    /// Returns the weights that the graph uses. They are the graph's first inputs, in this order. To run a larger graph
    /// that [applies](Graph::apply) this one, pass these weights to the [`Differentiable`] of the larger graph.
    ///
    /// ```
    /// # #[cfg(feature = "flex")] {
    /// use burn::nn::LinearConfig;
    /// use burn::tensor::{Device, Tensor};
    ///
    /// let device = Device::flex();
    /// let linear = LinearConfig::new(3, 2).init(&device);
    /// let x = Tensor::<2>::ones([5, 3], &device);
    /// let traced = funcify_burn::trace(&linear, x, |linear, x| linear.forward(x))?;
    ///
    /// let weights = traced.weights(&linear)?; // the weight and the bias
    /// assert_eq!((weights[0].shape(), weights[1].shape()), (vec![3, 2], vec![2]));
    /// # }
    /// # Ok::<(), funcify::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns `Call` if the structure of the weights differs from that of the weights passed to [`trace`].
    #[track_caller]
    pub fn weights(&self, weights: impl Weights) -> Result<Vec<AnyTensor>> {
        self.weights_of(&Place::new(self.graph().name(), Site::caller()), weights)
    }

    /// Returns host copies of the weights that the graph uses. They are the graph's first inputs, in this order. Use
    /// them to run the graph on another backend.
    ///
    /// ```
    /// # #[cfg(feature = "flex")] {
    /// use burn::nn::LinearConfig;
    /// use burn::tensor::{Device, Tensor};
    ///
    /// let device = Device::flex();
    /// let linear = LinearConfig::new(3, 2).init(&device);
    /// let x = Tensor::<2>::ones([5, 3], &device);
    /// let traced = funcify_burn::trace(&linear, x, |linear, x| linear.forward(x))?;
    ///
    /// let mut inputs = traced.host_weights(&linear)?;
    /// inputs.push(funcify::HostTensor::from([[1f32; 3]; 5]));
    /// assert_eq!(funcify::evaluate(traced.graph(), &inputs)?[0].shape(), [5, 2]);
    /// # }
    /// # Ok::<(), funcify::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns `Execution` if reading from the device fails.
    #[track_caller]
    pub fn host_weights(&self, weights: impl Weights) -> Result<Vec<HostTensor>> {
        let at = Place::new(self.graph().name(), Site::caller());
        let tensors = self.weights_of(&at, weights)?.into_iter();
        tensors.map(|tensor| tensor.into_host().map_err(|error| for_caller(&at, error))).collect()
    }

    fn weights_of(&self, at: &Place, weights: impl Weights) -> Result<Vec<AnyTensor>> {
        let tensors = weights.tensors(at)?.into_iter().zip(&self.used);
        Ok(tensors.filter_map(|((_, tensor), used)| used.then_some(tensor)).collect())
    }
}
