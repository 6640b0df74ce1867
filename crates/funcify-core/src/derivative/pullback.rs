//! Reverse mode as two programs: one that runs before the cotangents are known, and one that runs afterwards.
//!
//! A tensor library's own autodiff calls the backward pass later than the forward pass, if at all. [`Graph::vjp`]
//! returns both passes as a single graph; this module splits that graph where the cotangents enter. The forward pass
//! saves the values that the backward pass needs. It does not save the results of layout ops, such as broadcasts and
//! reshapes; the backward pass recomputes these results.

use std::collections::BTreeSet;

use super::build::GradOptions;
use super::graphs::{Wrt, free_name};
use super::*;
use crate::fixpoint::fixpoint;
use crate::graph::Source;
use crate::host::HostTensor;
use crate::ops::{Broadcast, Constant, Movement, OpClass, Transpose};

/// The forward pass and the backward pass of a graph, returned by [`Graph::pullback`].
#[derive(Clone, Debug)]
pub struct Pullback {
    /// The forward pass. It has the inputs of the graph, and returns the outputs of the graph, followed by the
    /// residuals.
    pub forward: Graph,
    /// The backward pass. Its inputs are listed in [`backward_inputs`](Pullback::backward_inputs). It returns `grad_x`
    /// for each input `x` in `wrt`, in order.
    pub backward: Graph,
    /// The source of each input of the backward pass.
    pub backward_inputs: Vec<BackwardInput>,
}

/// The source of an input of a backward pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BackwardInput {
    /// The input of the forward pass with this index.
    Input(usize),
    /// The output of the forward pass with this index: an output of the graph, or a residual.
    Output(usize),
    /// The cotangent of the graph's output with this index. Pass zeros of the output's type if the output has no
    /// cotangent.
    Cotangent(usize),
}

impl Graph {
    /// Returns the forward pass and the backward pass of the vector-Jacobian product, as two graphs.
    ///
    /// Together, the two graphs compute the same results as [`vjp`](Graph::vjp), but the cotangents need not be known
    /// until the backward pass. Fails in the same cases as `vjp`.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::derivative::BackwardInput;
    /// use funcify::{GradOptions, Graph, HostTensor, evaluate};
    ///
    /// let graph = Graph::build("double_exp", |g| g.input("x", "f64[]").exp().exp())?;
    /// let pullback = graph.pullback(["x"], GradOptions::new())?;
    /// let x = HostTensor::scalar(0f64);
    /// let outputs = evaluate(&pullback.forward, &[x.clone()])?;
    /// let ct = HostTensor::scalar(1f64);
    /// let inputs: Vec<_> = pullback.backward_inputs.iter().map(|taken| match taken {
    ///     BackwardInput::Input(_) => x.clone(),
    ///     BackwardInput::Output(index) => outputs[*index].clone(),
    ///     BackwardInput::Cotangent(_) => ct.clone(),
    /// }).collect();
    /// assert_eq!(evaluate(&pullback.backward, &inputs)?[0], HostTensor::scalar(1f64.exp()));
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn pullback(&self, wrt: impl Into<Wrt>, options: GradOptions) -> Result<Pullback> {
        let mut joint = self.vjp(wrt, options)?;
        let sizes = add_sizes(&mut joint)?;
        let cut = Cut::of(&joint, self.inputs().len(), self.outputs().len());
        cut.pullback(&sizes)
    }
}

impl Pullback {
    /// Returns an equivalent pullback whose residuals have different layouts. For each output of the forward pass,
    /// `innermost` holds the axis to move to the last position, or `None` to keep the layout. The first `outputs`
    /// entries are for the outputs of the original graph, which always keep their layout.
    #[doc(hidden)]
    pub fn with_layouts(&self, outputs: usize, innermost: &[Option<usize>]) -> Result<Pullback> {
        let orders = self.forward.outputs().iter().zip(innermost).enumerate().map(|(index, (output, axis))| {
            let rank = self.forward.ty(output.value).rank();
            let axis = axis.filter(|_| index >= outputs)?;
            Some((0..rank).filter(|other| *other != axis).chain([axis]).collect::<Vec<usize>>())
        });
        let orders: Vec<Option<Vec<usize>>> = orders.collect();
        let mut forward = self.forward.clone();
        let mut saved = forward.outputs().to_vec();
        for (output, axes) in saved.iter_mut().zip(&orders) {
            if let Some(axes) = axes.clone() {
                output.value = forward.push_node(Transpose { axes }.into(), &[output.value], Site::Unknown)?[0];
            }
        }
        let order = |taken: &BackwardInput| match taken {
            BackwardInput::Output(index) => orders[*index].as_deref(),
            BackwardInput::Input(_) | BackwardInput::Cotangent(_) => None,
        };
        let given: Vec<Option<&[usize]>> = self.backward_inputs.iter().map(order).collect();
        let backward = with_transposed_inputs(&self.backward, &given)?;
        Ok(Pullback { forward: forward.with_outputs(saved), backward, backward_inputs: self.backward_inputs.clone() })
    }
}

/// Returns a copy of `graph` that expects each input with its axes in the order given in `orders`, or in the original
/// order for `None`.
fn with_transposed_inputs(graph: &Graph, orders: &[Option<&[usize]>]) -> Result<Graph> {
    let mut transposed = Graph::new(graph.name());
    let mut values = Replay::new(graph, []);
    for (index, (input, order)) in graph.inputs().iter().zip(orders).enumerate() {
        let ty = graph.ty(input.value);
        let name = graph.input_name(index);
        let value = match order {
            None => transposed.push_input(name, ty.clone(), input.is_static),
            Some(order) => {
                let shape = Shape::new(order.iter().map(|axis| &ty.shape[*axis]));
                let value = transposed.push_input(name, ty.with_shape(shape), input.is_static);
                let axes = (0..order.len()).filter_map(|axis| order.iter().position(|from| *from == axis)).collect();
                transposed.push_node(Transpose { axes }.into(), &[value], Site::Unknown)?[0]
            }
        };
        values.set(input.value, value);
    }
    let values = values.walk_live(|_, node, operands| {
        let results = transposed.push_node(node.op.clone(), &operands, node.site)?;
        transposed.keep_names(graph, node, &results);
        Ok::<_, Error>(results)
    })?;
    for output in graph.outputs() {
        transposed.push_output(&output.name, values.output(output)?);
    }
    Ok(transposed)
}

/// Adds a vector to the graph for each size that one of its loops binds. The length of the vector is that size, so a
/// program that receives the vector knows the size.
fn add_sizes(joint: &mut Graph) -> Result<Vec<(Symbol, ValueId)>> {
    let symbols: Vec<Symbol> = joint.nodes().iter().flat_map(|node| node.op.binds()).cloned().collect();
    let mut sizes = Vec::with_capacity(symbols.len());
    for symbol in symbols {
        let constant = Constant { value: Arc::new(HostTensor::scalar(false)) };
        let value = joint.push_node(constant.into(), &[], Site::Unknown)?[0];
        let rows = Broadcast { shape: [Dim::symbol(&symbol)].into() };
        sizes.push((symbol, joint.push_node(rows.into(), &[value], Site::Unknown)?[0]));
    }
    Ok(sizes)
}

/// The joint graph of a forward and a backward pass, and the boundary between the two.
struct Cut<'a> {
    joint: &'a Graph,
    /// The number of inputs of the forward pass. The remaining inputs of the joint graph are cotangents.
    inputs: usize,
    outputs: usize,
    /// For each node, `true` if the backward pass runs it, because the node depends on a cotangent or is recomputed.
    in_backward: Vec<bool>,
    /// For each value, `true` if it is an input of the backward pass.
    is_backward_input: Vec<bool>,
}

impl<'a> Cut<'a> {
    fn of(joint: &'a Graph, inputs: usize, outputs: usize) -> Self {
        let late = late_nodes(joint, inputs);
        let mut in_backward = vec![false; late.len()];
        let mut needed = vec![false; joint.values().count()];
        let mut is_backward_input = vec![false; needed.len()];
        joint.outputs()[outputs..].iter().for_each(|output| needed[output.value.index()] = true);
        let live = joint.live_nodes();
        for (index, node) in joint.nodes().iter().enumerate().rev() {
            let is_needed = node.outputs.iter().any(|output| needed[output.index()]);
            let is_done_again = is_layout(&node.op) || is_joined_from_given(joint, node);
            in_backward[index] = if late[index] { live[index] } else { is_needed && is_done_again };
            if in_backward[index] {
                node.inputs.iter().for_each(|input| needed[input.index()] = true);
            } else {
                node.outputs.iter().for_each(|output| is_backward_input[output.index()] = needed[output.index()]);
            }
        }
        joint.inputs().iter().for_each(|input| is_backward_input[input.value.index()] = needed[input.value.index()]);
        Cut { joint, inputs, outputs, in_backward, is_backward_input }
    }

    fn pullback(mut self, sizes: &[(Symbol, ValueId)]) -> Result<Pullback> {
        self.take_sizes(sizes);
        let joint = self.joint;
        let mut outputs = joint.outputs()[..self.outputs].to_vec();
        let mut backward = Graph::new(format!("{}_backward", joint.name()));
        let mut values = Replay::new(joint, []);
        let mut backward_inputs = Vec::new();
        for value in joint.values().filter(|value| self.is_backward_input[value.index()]) {
            let (name, taken) = match joint.source(value) {
                Source::Input(index) if index < self.inputs => (joint.input_name(index), BackwardInput::Input(index)),
                Source::Input(index) => (joint.input_name(index), BackwardInput::Cotangent(self.output_of(index))),
                Source::Node(..) => {
                    let index = outputs.iter().position(|output| output.value == value).unwrap_or_else(|| {
                        let taken = |name: &str| outputs.iter().any(|output| output.name == name);
                        let name = free_name(&format!("residual_{}", outputs.len() - self.outputs), taken);
                        outputs.push(Output { name, value });
                        outputs.len() - 1
                    });
                    (outputs[index].name.as_str(), BackwardInput::Output(index))
                }
            };
            let is_taken = |name: &str| (0..backward_inputs.len()).any(|index| backward.input_name(index) == name);
            let name = free_name(name, is_taken);
            values.set(value, backward.push_input(&name, joint.ty(value).clone(), false));
            backward_inputs.push(taken);
        }
        let values = values.walk_marked(&self.in_backward, |_, node, operands| {
            let results = backward.push_node(node.op.clone(), &operands, node.site)?;
            backward.keep_names(joint, node, &results);
            Ok::<_, Error>(results)
        })?;
        for output in &joint.outputs()[self.outputs..] {
            backward.push_output(&output.name, values.output(output)?);
        }
        let all = joint.with_outputs(outputs);
        let forward = all.pruned_without(self.inputs..joint.inputs().len()).unwrap_or(all);
        Ok(Pullback { forward, backward: backward.pruned(), backward_inputs })
    }

    /// Marks further values in `is_backward_input`, until the shapes of the marked values determine all sizes that the
    /// backward pass uses. Marks inputs of the forward pass if possible. For a size that no input determines, marks the
    /// vector in `sizes`.
    fn take_sizes(&mut self, sizes: &[(Symbol, ValueId)]) {
        let joint = self.joint;
        let nodes = || joint.nodes().iter().zip(&self.in_backward).filter(|(_, is_in)| **is_in).map(|(node, _)| node);
        let given: BTreeSet<&Symbol> = nodes().flat_map(|node| node.op.binds()).collect();
        let mut used = BTreeSet::new();
        joint.visit_symbols(&mut |symbol| _ = used.insert(symbol.clone()));
        let is_used = |symbol: &Symbol| {
            !given.contains(symbol)
                && (nodes().any(|node| uses_any(joint, node, &[symbol]))
                    || joint.values().any(|value| {
                        self.is_backward_input[value.index()] && symbols(joint, value).any(|s| s == symbol)
                    }))
        };
        used.retain(is_used);
        for symbol in used {
            if self.known_sizes().contains(&symbol) {
                continue;
            }
            let inputs = joint.inputs()[..self.inputs].iter().map(|input| input.value);
            let given = sizes.iter().filter(|(of, _)| *of == symbol).map(|(_, value)| *value);
            for value in inputs.chain(given) {
                let before = std::mem::replace(&mut self.is_backward_input[value.index()], true);
                if self.known_sizes().contains(&symbol) {
                    break;
                }
                self.is_backward_input[value.index()] = before;
            }
        }
    }

    /// Returns the symbols whose sizes are determined by the shapes of the values in `is_backward_input`. A dimension
    /// determines a symbol if it contains no other unknown symbol.
    fn known_sizes(&self) -> BTreeSet<Symbol> {
        let taken = self.joint.values().filter(|value| self.is_backward_input[value.index()]);
        let dims: Vec<&Dim> = taken.flat_map(|value| self.joint.ty(value).shape.dims()).collect();
        fixpoint(BTreeSet::new(), |known| {
            let mut known: BTreeSet<Symbol> = known.clone();
            for dim in &dims {
                let symbols = dim.symbols();
                let mut unknown = symbols.into_iter().filter(|symbol| !known.contains(*symbol));
                if let (Some(symbol), None) = (unknown.next(), unknown.next()) {
                    known.insert(symbol.clone());
                }
            }
            known
        })
    }

    /// Returns the index of the output whose cotangent is the input with index `input`. Each float output has one
    /// cotangent input, and these inputs are in the order of the outputs.
    fn output_of(&self, input: usize) -> usize {
        let is_float = |output: &usize| self.joint.output_type(*output).dtype.is_float();
        (0..self.outputs)
            .filter(is_float)
            .nth(input - self.inputs)
            .expect("the inputs after those of the program are cotangents")
    }
}

/// Returns, for each node, whether it depends on a cotangent. The cotangents are the inputs after the first `inputs`.
/// A node may depend on a cotangent through an operand, through a size that occurs only in the types of cotangents,
/// or through a size that another dependent node binds.
fn late_nodes(joint: &Graph, inputs: usize) -> Vec<bool> {
    let mut late = vec![false; joint.values().count()];
    let (before, after) = joint.inputs().split_at(inputs);
    after.iter().for_each(|input| late[input.value.index()] = true);
    let mut early: BTreeSet<&Symbol> = before.iter().flat_map(|input| symbols(joint, input.value)).collect();
    early.extend(joint.nodes().iter().flat_map(|node| node.op.binds()));
    let of_cotangents = after.iter().flat_map(|input| symbols(joint, input.value));
    let mut late_sizes: Vec<&Symbol> = of_cotangents.filter(|symbol| !early.contains(symbol)).collect();
    let mut nodes = Vec::with_capacity(joint.nodes().len());
    for node in joint.nodes() {
        let is_late = node.inputs.iter().any(|input| late[input.index()]) || uses_any(joint, node, &late_sizes);
        if is_late {
            node.outputs.iter().for_each(|output| late[output.index()] = true);
            late_sizes.extend(node.op.binds());
        }
        nodes.push(is_late);
    }
    nodes
}

/// Returns the symbols in the type of a value.
fn symbols(graph: &Graph, value: ValueId) -> impl Iterator<Item = &Symbol> {
    graph.ty(value).shape.dims().iter().flat_map(Dim::symbols)
}

/// Returns `true` if an op has no operands and creates a tensor, or only changes the layout of its operand. Recomputing
/// its result is cheaper than saving it.
fn is_layout(op: &Op) -> bool {
    match op.class() {
        OpClass::Creation(_)
        | OpClass::Movement(Movement::Broadcast(_) | Movement::Reshape(_) | Movement::Transpose(_)) => true,
        OpClass::Movement(_) | OpClass::Elementwise(_) | OpClass::Indexing(_) | OpClass::Along(_) => false,
        OpClass::Product(_) | OpClass::RandomBits(_) | OpClass::Binding(_) => false,
        OpClass::Control(_) | OpClass::Custom(_) => false,
    }
}

/// Returns `true` if a node concatenates, along axis 0, only inputs, results of loops and results of layout ops. An
/// example is an initial state followed by a loop's states. The forward pass does not save such a concatenation,
/// because a backward loop can read each row from the concatenated parts. Often, the forward pass already returns these
/// parts, so that saving them needs no extra memory.
fn is_joined_from_given(joint: &Graph, node: &Node) -> bool {
    let is_given = |value: &ValueId| match joint.source(*value) {
        Source::Input(_) => true,
        Source::Node(node, _) => matches!(joint.node(node).op, Op::Scan(_)) || is_layout(&joint.node(node).op),
    };
    matches!(&node.op, Op::Concat(concat) if concat.axis == 0) && node.inputs.iter().all(is_given)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Recurrence, Scalar, Value, evaluate, scan, while_loop};

    fn saved(pullback: &Pullback, outputs: usize) -> Vec<String> {
        pullback.forward.outputs()[outputs..]
            .iter()
            .map(|output| pullback.forward.ty(output.value).to_string())
            .collect()
    }

    /// Runs the forward pass and the backward pass with all cotangents equal to 1, and returns the gradients.
    fn pull(graph: &Graph, pullback: &Pullback, inputs: &[HostTensor]) -> Vec<HostTensor> {
        pullback.forward.check().unwrap();
        pullback.backward.check().unwrap();
        let outputs = evaluate(&pullback.forward, inputs).unwrap();
        assert_eq!(outputs[..graph.outputs().len()], evaluate(graph, inputs).unwrap());
        let taken = pullback.backward_inputs.iter().map(|taken| match taken {
            BackwardInput::Input(index) => inputs[*index].clone(),
            BackwardInput::Output(index) => outputs[*index].clone(),
            BackwardInput::Cotangent(index) => {
                HostTensor::from_fn(outputs[*index].dtype(), outputs[*index].shape(), |_| Scalar::Float(1.0))
            }
        });
        evaluate(&pullback.backward, &taken.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn the_rows_of_a_state_are_saved_once() {
        let graph = Graph::build("rnn", |g| {
            let (xs, w) = (g.input("xs", "f64[T,2]"), g.input("w", "f64[2,2]"));
            let mut rnn = Recurrence::new();
            let x = rnn.sequence(xs, [0]);
            let h = rnn.sit_sot(g.input("h0", "f64[1,2]"));
            rnn.run(|step| {
                let ([x], [before]) = (step.read(&x), step.read(&h));
                step.write(&h, (before.matmul(w) + x).tanh());
            })
            .trace(&h)
        })
        .unwrap();
        let pullback = graph.pullback(["w"], GradOptions::new()).unwrap();
        assert_eq!(saved(&pullback, 1), ["f64[T+1,1,2]"]);
        let taken = pullback.backward_inputs.iter().filter(|taken| matches!(taken, BackwardInput::Output(_)));
        assert_eq!(taken.collect::<Vec<_>>(), [&BackwardInput::Output(1)]);
    }

    #[test]
    fn a_size_that_a_loop_gives_is_saved_if_nothing_else_tells_it() {
        let graph = Graph::build("doubled", |g| {
            let (x, i) = (g.input("x", "f64[]"), g.input("i", "i64[]"));
            let doubled = |(x, i): (Value, Value)| (x * 2.0, i * 3);
            while_loop((x, i), |(_, i)| i.lt(100), doubled).0
        })
        .unwrap();
        let pullback = graph.pullback(["x"], GradOptions::new()).unwrap();
        let gradients = pull(&graph, &pullback, &[HostTensor::scalar(0.5f64), HostTensor::scalar(1i64)]);
        assert_eq!(gradients, [HostTensor::scalar(32f64)]);
    }

    #[test]
    fn broadcasts_are_done_again_and_names_are_kept_apart() {
        let graph = Graph::build("names", |g| {
            let (x, residual_0) = (g.input("x", "f64[N]"), g.input("residual_0", "f64[]"));
            (x.sin() * residual_0).exp()
        })
        .unwrap();
        let pullback = graph.pullback(["x"], GradOptions::new()).unwrap();
        assert_eq!(saved(&pullback, 1), ["f64[N]"]);
        let (x, scale) = (HostTensor::from([0.5f64, 2.]), HostTensor::scalar(3f64));
        let gradient = |x: f64| (3. * x.sin()).exp() * 3. * x.cos();
        let expected = HostTensor::from([gradient(0.5), gradient(2.)]);
        assert_eq!(pull(&graph, &pullback, &[x, scale]), [expected]);
    }

    #[test]
    fn what_is_saved_may_be_laid_out_in_another_way() {
        let graph = Graph::build("sums", |g| {
            let (xs, w) = (g.input("xs", "f64[T,2]"), g.input("w", "f64[2,3]"));
            scan(w, xs, |h, x| ((h * x.unsqueeze(1)).sin(), ())).0
        })
        .unwrap();
        let pullback = graph.pullback(["xs", "w"], GradOptions::new()).unwrap();
        assert_eq!(saved(&pullback, 1), ["f64[T,2,3]"]);
        let laid_out = pullback.with_layouts(1, &[Some(0), Some(1)]).unwrap();
        assert_eq!(saved(&laid_out, 1), ["f64[T,3,2]"]);
        let xs = HostTensor::from([[0.5f64, 2.], [-1., 0.25], [0.75, -0.5]]);
        let inputs = [xs, HostTensor::from([[0.3f64, -0.2, 0.9], [1.1, 0.4, -0.6]])];
        assert_eq!(pull(&graph, &laid_out, &inputs), pull(&graph, &pullback, &inputs));
    }

    #[test]
    fn an_output_without_a_cotangent_takes_none() {
        let graph = Graph::build("ints", |g| {
            let (i, x, y) = (g.input("i", "i64[2]"), g.input("x", "f64[2]"), g.input("y", "f64[2]"));
            (i + 1, y, x.take(0, i))
        })
        .unwrap();
        let pullback = graph.pullback(["x"], GradOptions::new()).unwrap();
        let cotangents = pullback.backward_inputs.iter().filter(|taken| matches!(taken, BackwardInput::Cotangent(_)));
        assert_eq!(cotangents.collect::<Vec<_>>(), [&BackwardInput::Cotangent(2)]);
    }
}
