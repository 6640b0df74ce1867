//! Derivatives of graphs, returned as graphs: `Graph::grad`, `Graph::vjp`, `Graph::jvp`, `Graph::hvp`,
//! `Graph::jacobian`, `Graph::hessian`.

use std::ops::RangeFull;

use super::build::{Disconnected, GradOptions, check_loss};
use super::disconnected::disconnected;
use super::*;
use crate::graph::fresh_symbol;
use crate::tree::Named;

/// The inputs with respect to which a graph is differentiated: names, or `..` for all inputs of a float type.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{GradOptions, Graph};
///
/// let product = Graph::build("product", |g| g.input("x", "f64[]") * g.input("y", "f64[]"))?;
/// assert_eq!(product.grad("x", GradOptions::new())?.outputs().len(), 1);
/// assert_eq!(product.grad(["x", "y"], GradOptions::new())?.outputs().len(), 2);
/// assert_eq!(product.grad(.., GradOptions::new())?.outputs().len(), 2);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub enum Wrt {
    /// All inputs of a float type.
    Floats,
    /// The inputs with these names.
    Names(Vec<String>),
}

impl From<RangeFull> for Wrt {
    fn from(_: RangeFull) -> Self {
        Wrt::Floats
    }
}

impl From<&str> for Wrt {
    fn from(name: &str) -> Self {
        Wrt::Names(vec![name.to_string()])
    }
}

impl<const N: usize> From<[&str; N]> for Wrt {
    fn from(names: [&str; N]) -> Self {
        Wrt::from(names.as_slice())
    }
}

impl From<&[&str]> for Wrt {
    fn from(names: &[&str]) -> Self {
        Wrt::Names(names.iter().map(|name| (*name).to_string()).collect())
    }
}

impl Graph {
    /// Returns a graph that computes the gradient of a loss. The returned graph has the inputs of this graph, and an
    /// output `grad_x` for each input `x` in `wrt`. The loss is the only output of this graph, or the output selected
    /// by [`GradOptions::of`]. It must be a float scalar.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{GradOptions, Graph};
    ///
    /// let loss = Graph::build("loss", |g| (g.input("x", "f32[T]") * g.input("w", "f32[]")).square().sum(..))?;
    /// let gradients = loss.grad(["w"], GradOptions::new())?;
    /// assert_eq!(gradients.outputs()[0].name, "grad_w");
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn grad(&self, wrt: impl Into<Wrt>, options: GradOptions) -> Result<Graph> {
        self.gradient(&Place::new("grad", Site::caller()), &wrt.into(), &options, false)
    }

    /// Like [`grad`](Graph::grad), but the returned graph also has the outputs of this graph, before the gradients.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{GradOptions, Graph, evaluate};
    ///
    /// let square = Graph::build("square", |g| g.input("x", "f64[]").square())?;
    /// let both = square.value_and_grad("x", GradOptions::new())?;
    /// assert_eq!(evaluate(&both, &[3f64.into()])?, [9f64.into(), 6f64.into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn value_and_grad(&self, wrt: impl Into<Wrt>, options: GradOptions) -> Result<Graph> {
        self.gradient(&Place::new("value_and_grad", Site::caller()), &wrt.into(), &options, true)
    }

    fn gradient(&self, at: &Place, wrt: &Wrt, options: &GradOptions, with_values: bool) -> Result<Graph> {
        let names: Vec<&str> = self.outputs().iter().map(|output| output.name.as_str()).collect();
        let loss = match &options.of {
            None if names.len() == 1 => Some(0),
            None => None,
            Some(name) => names.iter().position(|other| other == name),
        };
        let Some(loss) = loss else {
            let found = options.of.as_ref().map_or(format!("{} outputs", names.len()), |name| format!("`{name}`"));
            let fix = "name the loss: `GradOptions::new().of(\"loss\")`";
            return Err(at.mismatch("the loss", format!("one of the outputs {}", names.join(", ")), found, fix));
        };
        self.derive(at, wrt, |inputs, flags| {
            let tape = Tape::record(self, inputs, flags, &options.vjp_options)?;
            let outputs = tape.outputs()?;
            check_loss(at, &format!("output `{}`", names[loss]), outputs[loss]);
            let cotangents: Vec<Option<Value>> =
                outputs.iter().enumerate().map(|(index, value)| (index == loss).then(|| value.ones_like())).collect();
            let gradients = self.named_cotangents(at, options, inputs, flags, tape.pull(&cotangents)?);
            let values = if with_values { outputs } else { Vec::new() };
            Ok(self.named_outputs(values).into_iter().chain(gradients).collect())
        })
    }

    /// Returns this graph extended by the vector-Jacobian product. The returned graph has an additional input `ct_y`
    /// for each output `y` of a float type, and an additional output `grad_x` for each input `x` in `wrt`.
    ///
    /// If the size of an axis of `y` is known only after a loop has run, the same axis of `ct_y` has a separate
    /// symbolic size. That axis of `ct_y` must be at least as long as the axis of `y`. Excess elements of `ct_y` are
    /// ignored.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{GradOptions, Graph, evaluate};
    ///
    /// let squares = Graph::build("squares", |g| g.input("x", "f64[2]").square())?;
    /// let pulled = squares.vjp("x", GradOptions::new())?;
    /// let results = evaluate(&pulled, &[[3f64, 4.0].into(), [1f64, 10.0].into()])?;
    /// assert_eq!(results, [[9f64, 16.0].into(), [6f64, 80.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn vjp(&self, wrt: impl Into<Wrt>, options: GradOptions) -> Result<Graph> {
        let at = Place::new("vjp", Site::caller());
        self.derive(&at, &wrt.into(), |inputs, flags| {
            let mut rows = Vec::new();
            let given: Vec<Option<Value>> = (0..self.outputs().len())
                .map(|index| {
                    let (name, ty) = (&self.outputs()[index].name, self.given_type(self.output_type(index), &mut rows));
                    ty.dtype.is_float().then(|| further_input(&at, &format!("ct_{name}"), &ty))
                })
                .collect();
            let tape = Tape::record(self, inputs, flags, &options.vjp_options)?;
            let fitted =
                |(index, given): (usize, &Option<Value>)| given.map(|value| fitted(value, self.output_type(index)));
            let cotangents: Vec<Option<Value>> = given.iter().enumerate().map(fitted).collect();
            let gradients = self.named_cotangents(&at, &options, inputs, flags, tape.pull(&cotangents)?);
            Ok(self.named_outputs(tape.outputs()?).into_iter().chain(gradients).collect())
        })
    }

    /// Returns this graph extended by the Jacobian-vector product. The returned graph has an additional input `tan_x`
    /// for each input `x` in `wrt`, and an additional output `tan_y` for each output `y` of a float type. An output
    /// that does not depend on the inputs in `wrt` has a zero tangent.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let squares = Graph::build("squares", |g| g.input("x", "f64[2]").square())?;
    /// let pushed = squares.jvp("x")?;
    /// let results = evaluate(&pushed, &[[3f64, 4.0].into(), [1f64, 10.0].into()])?;
    /// assert_eq!(results, [[9f64, 16.0].into(), [6f64, 80.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn jvp(&self, wrt: impl Into<Wrt>) -> Result<Graph> {
        self.push(&Place::new("jvp", Site::caller()), &wrt.into())
    }

    fn push(&self, at: &Place, wrt: &Wrt) -> Result<Graph> {
        self.derive(at, wrt, |inputs, flags| {
            let dual = |(index, (primal, flags)): (usize, (&Value, &bool))| {
                let (name, ty) = (self.input_name(index), self.input_type(index));
                let tangent = flags.then(|| further_input(at, &format!("tan_{name}"), ty));
                Dual { primal: *primal, tangent }
            };
            let duals: Vec<Dual> = inputs.iter().zip(flags).enumerate().map(dual).collect();
            let results = push_forward(self, &duals)?;
            let mut outputs = self.named_outputs(primals(&results));
            for (result, output) in results.iter().zip(self.outputs()) {
                if self.ty(output.value).dtype.is_float() {
                    outputs.push((format!("tan_{}", output.name), result.tangent_or_zeros()));
                }
            }
            Ok(outputs)
        })
    }

    /// Returns a graph that computes the Hessian-vector product without building the Hessian. The product is the
    /// derivative of the loss's gradient along a vector. The returned graph has the inputs of this graph, followed by
    /// an input `tan_x` for each input `x` in `wrt`. Its outputs are `hvp_x` for the same inputs. The loss is selected
    /// as in [`grad`](Graph::grad). The product is zero for an input that the loss does not depend on.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{GradOptions, Graph, HostTensor, evaluate};
    ///
    /// let cubes = Graph::build("cubes", |g| {
    ///     let x = g.input("x", "f64[2]");
    ///     (x * x * x).sum(0)
    /// })?;
    /// let product = cubes.hvp("x", GradOptions::new())?;
    /// let inputs = [HostTensor::from([1f64, 2.]), HostTensor::from([10f64, 1.])];
    /// assert_eq!(evaluate(&product, &inputs)?[0], HostTensor::from([60f64, 12.]));
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn hvp(&self, wrt: impl Into<Wrt>, options: GradOptions) -> Result<Graph> {
        let at = Place::new("hvp", Site::caller());
        let wrt = wrt.into();
        let zeros = options.disconnected(Disconnected::Zeros);
        let gradients = self.gradient(&at, &wrt, &zeros, false)?;
        let product = gradients.push(&at, &wrt)?;
        let tangents = &product.outputs()[gradients.outputs().len()..];
        let named = |(tangent, gradient): (&Output, &Output)| Output {
            name: gradient.name.replacen("grad_", "hvp_", 1),
            value: tangent.value,
        };
        let outputs = tangents.iter().zip(gradients.outputs()).map(named).collect();
        Ok(product.with_outputs(outputs).pruned())
    }

    /// Returns a graph that computes Jacobians. The returned graph has the inputs of this graph, and an output
    /// `jac_y_x` for each output `y` of a float type and each input `x` in `wrt`. The shape of `jac_y_x` is the shape
    /// of `y` followed by the shape of `x`. The Jacobian is zero if `y` does not depend on `x`.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, HostTensor, evaluate};
    ///
    /// let squares = Graph::build("squares", |g| {
    ///     let x = g.input("x", "f64[2]");
    ///     x * x
    /// })?;
    /// let jacobian = squares.jacobian("x")?;
    /// let expected = HostTensor::from([[6f64, 0.], [0., 8.]]);
    /// assert_eq!(evaluate(&jacobian, &[HostTensor::from([3f64, 4.])])?[0], expected);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn jacobian(&self, wrt: impl Into<Wrt>) -> Result<Graph> {
        self.jacobians(&Place::new("jacobian", Site::caller()), &wrt.into())
    }

    fn jacobians(&self, at: &Place, wrt: &Wrt) -> Result<Graph> {
        self.derive(at, wrt, |inputs, flags| {
            let mut outputs = Vec::new();
            for output in self.outputs().iter().filter(|output| self.ty(output.value).dtype.is_float()) {
                let alone = self.with_outputs(vec![output.clone()]);
                for index in (0..inputs.len()).filter(|index| flags[*index]) {
                    let value = jacobian(inputs[index], |x| {
                        let others = inputs.iter().enumerate();
                        let all: Vec<Value> = others.map(|(i, other)| if i == index { x } else { *other }).collect();
                        or_failed(inline(&alone, &all), 1)[0]
                    });
                    outputs.push((format!("jac_{}_{}", output.name, self.input_name(index)), value));
                }
            }
            Ok(outputs)
        })
    }

    /// Returns a graph that computes the Hessian of the loss. The returned graph has the inputs of this graph, and an
    /// output `hess_x_w` for each pair of inputs `x` and `w` in `wrt`. The shape of this output is the shape of `x`
    /// followed by the shape of `w`. The loss is selected as in [`grad`](Graph::grad). The Hessian is zero for an input
    /// that the loss does not depend on.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{GradOptions, Graph, evaluate};
    ///
    /// let product = Graph::build("product", |g| g.input("x", "f64[]").square() * g.input("y", "f64[]"))?;
    /// let hessian = product.hessian(["x", "y"], GradOptions::new())?;
    /// assert_eq!(hessian.outputs()[1].name, "hess_x_y");
    /// assert_eq!(evaluate(&hessian, &[3f64.into(), 5f64.into()])?[1], 6f64.into());
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn hessian(&self, wrt: impl Into<Wrt>, options: GradOptions) -> Result<Graph> {
        let at = Place::new("hessian", Site::caller());
        let wrt = wrt.into();
        let gradients = self.gradient(&at, &wrt, &options.disconnected(Disconnected::Zeros), false)?;
        let second = gradients.jacobians(&at, &wrt)?;
        let named = |output: &Output| Output { name: output.name.replacen("jac_grad_", "hess_", 1), ..output.clone() };
        Ok(second.with_outputs(second.outputs().iter().map(named).collect()))
    }

    /// Returns a copy of the graph with only the given outputs and the nodes that they need. All inputs remain.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::Graph;
    ///
    /// let both = Graph::build("both", |g| {
    ///     let x = g.input("x", "f64[]");
    ///     (x.sin(), x.cos())
    /// })?;
    /// let cosine = both.with_only_outputs(&["out_1"])?;
    /// assert_eq!((cosine.nodes().len(), cosine.outputs().len()), (1, 1));
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn with_only_outputs(&self, outputs: &[&str]) -> Result<Graph> {
        let at = Place::new("with_only_outputs", Site::caller());
        let find = |name: &&str| {
            let found = self.outputs().iter().find(|output| output.name == **name).cloned();
            found.ok_or_else(|| {
                let names: Vec<&str> = self.outputs().iter().map(|output| output.name.as_str()).collect();
                let expected = format!("outputs among {}", names.join(", "));
                at.mismatch("the list of outputs", expected, format!("`{name}`"), "name an output of the graph")
            })
        };
        let outputs = outputs.iter().map(find).collect::<Result<Vec<_>>>()?;
        Ok(self.with_outputs(outputs).pruned())
    }

    /// Builds the graph of a derivative. `f` receives the inputs, and a flag for each input: `true` if the input is
    /// in `wrt`. `f` returns the named outputs.
    pub(super) fn derive(
        &self,
        at: &Place,
        wrt: &Wrt,
        f: impl FnOnce(&[Value], &[bool]) -> Result<Vec<(String, Value)>, Failed>,
    ) -> Result<Graph> {
        self.checked()?;
        let flags = self.wrt_flags(at, wrt)?;
        let graph = tracer::rebuild(self, at.site, |_| {
            tracer::reserve_symbols(self);
            let input = |index: usize| {
                let is_static = self.inputs()[index].is_static;
                tracer::input(self.input_name(index), self.input_type(index).clone(), is_static, at.site)
            };
            let inputs: Vec<Value> = (0..self.inputs().len()).map(input).collect();
            let mut outputs = at_site(at.site, || f(&inputs, &flags))?;
            for index in 1..outputs.len() {
                let taken = |name: &str| outputs[..index].iter().any(|(other, _)| other == name);
                outputs[index].0 = free_name(&outputs[index].0, taken);
            }
            Ok(Named(outputs))
        })?;
        Ok(graph.pruned())
    }

    pub(super) fn wrt_flags(&self, at: &Place, wrt: &Wrt) -> Result<Vec<bool>> {
        let count = self.inputs().len();
        let names = match wrt {
            Wrt::Floats => return Ok((0..count).map(|index| self.input_type(index).dtype.is_float()).collect()),
            Wrt::Names(names) => names,
        };
        let mut flags = vec![false; count];
        for name in names {
            let Some(index) = (0..count).find(|index| self.input_name(*index) == name) else {
                let inputs: Vec<&str> = (0..count).map(|index| self.input_name(index)).collect();
                let expected = format!("one of the inputs {}", inputs.join(", "));
                return Err(at.mismatch("`wrt`", expected, format!("`{name}`"), "name an input of the graph"));
            };
            let ty = self.input_type(index);
            if !ty.dtype.is_float() {
                let fix = "leave it out: only floats have derivatives";
                return Err(at.mismatch(format!("input `{name}` in `wrt`"), "a float tensor", ty, fix));
            }
            flags[index] = true;
        }
        Ok(flags)
    }

    fn named_cotangents(
        &self,
        at: &Place,
        options: &GradOptions,
        inputs: &[Value],
        flags: &[bool],
        cotangents: Vec<Option<Value>>,
    ) -> Vec<(String, Value)> {
        let mut named = Vec::new();
        for (index, cotangent) in cotangents.into_iter().enumerate().filter(|(index, _)| flags[*index]) {
            let name = self.input_name(index);
            if cotangent.is_none() && options.disconnected == Disconnected::Error {
                let component = format!("input `{name}`");
                fail(&at.op, at.site, &[inputs[index]], |at| disconnected(at, &component, self, index));
            }
            named.push((format!("grad_{name}"), cotangent.unwrap_or_else(|| inputs[index].zeros_like())));
        }
        named
    }

    /// Returns the type of the cotangent input for an output of type `ty`. Each dimension with a symbol that occurs in
    /// no input becomes a new symbol. `rows` holds the dimensions replaced so far, each with its new symbol, so that
    /// equal dimensions get the same symbol.
    fn given_type(&self, ty: &TensorType, rows: &mut Vec<(Dim, Dim)>) -> TensorType {
        let of_inputs = |symbol: &Symbol| {
            (0..self.inputs().len()).any(|index| {
                let dims = self.input_type(index).shape.dims();
                dims.iter().any(|dim| dim.symbols().contains(&symbol))
            })
        };
        let mut dims = ty.shape.dims().to_vec();
        for dim in dims.iter_mut().filter(|dim| !dim.symbols().into_iter().all(of_inputs)) {
            let known = rows.iter().find(|(known, _)| known == dim).map(|(_, given)| given.clone());
            *dim = known.unwrap_or_else(|| {
                let given = Dim::symbol(&fresh_symbol());
                rows.push((dim.clone(), given.clone()));
                given
            });
        }
        ty.with_shape(dims)
    }
}

/// Adds an input for a tangent or a cotangent. If another input is called `name`, a number is appended to the name.
fn further_input(at: &Place, name: &str, ty: &TensorType) -> Value {
    tracer::input(&free_name(name, tracer::has_input), ty.clone(), false, at.site)
}

/// Truncates a cotangent to the shape of `ty`: drops the elements beyond the end of each axis.
fn fitted(value: Value, ty: &TensorType) -> Value {
    let differ = |axis: &usize| value.shape()[*axis] != ty.shape[*axis];
    let axes: Vec<usize> = (0..ty.rank()).filter(differ).collect();
    axes.into_iter().fold(value, |value, axis| value.slice(axis as i64, Dim::from(0)..ty.shape[axis].clone()))
}

/// Returns `name` if it is not taken. Otherwise, appends the first number that makes the name unique, as in `tan_x_2`.
pub(super) fn free_name(name: &str, taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|number: usize| format!("{name}_{number}"));
    std::iter::once(name.to_string()).chain(numbered).find(|name| !taken(name)).expect("the numbers never run out")
}
