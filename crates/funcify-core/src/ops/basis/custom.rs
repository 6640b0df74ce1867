//! Ops from other crates: a variant of [`Op`] that holds a trait object, and a registry for parsing.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use crate::derivative::{no_derivative, primals};
use crate::graph::{Graph, at_site, tracer};
use crate::ops::rules::*;
use crate::ops::{Attributes, Op, OpKey, OpText};
use crate::tree::Named;

/// An op defined in another crate. [`custom_op!`](crate::custom_op) registers it.
pub trait CustomOp: Any + Debug + Send + Sync {
    /// Applies the type rule: infers the types of the results.
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>>;

    /// Computes the results for the reference evaluator. `outputs` are the types that [`infer`](CustomOp::infer)
    /// returned.
    fn eval(
        &self,
        context: &mut EvalContext<'_>,
        inputs: &[HostTensor],
        outputs: &[TensorType],
    ) -> Result<Vec<HostTensor>>;

    /// Returns the attributes in the order in which the text form prints them.
    fn attributes(&self) -> Attributes;

    /// Applies the batching rule: adds to the open graph the ops that compute this op for `size` lanes at once, and
    /// returns their results. The rule adds ops through [`apply`](crate::apply) and the methods of [`Value`]. At least
    /// one operand has lanes. The rule of an elementwise op can call
    /// [`batch_elementwise`](crate::ops::batch_elementwise). [`OpRules`] describes the guarantees that hold for every
    /// rule.
    fn batch(&self, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed>;

    /// Applies the forward-mode rule: adds the op and the tangents of its results to the open graph, like
    /// [`OpRules::jvp`](crate::ops::OpRules::jvp). [`jvp_with`](crate::derivative::jvp_with) is a helper for writing
    /// the rule. Returns `None` if the op has no forward-mode rule. A program that needs the missing rule is rejected.
    fn jvp(&self, _operands: &[Dual]) -> Result<Option<Vec<Dual>>, Failed> {
        Ok(None)
    }

    /// Applies the reverse-mode rule: adds to the open graph the ops that compute the cotangents of the operands, like
    /// [`OpRules::vjp`](crate::ops::OpRules::vjp). Returns `None` if the op has no reverse-mode rule. A program that
    /// needs the missing rule is rejected.
    fn vjp(&self, _context: &VjpContext<'_>, _cotangents: &[Option<Value>]) -> Result<Option<Cotangents>, Failed> {
        Ok(None)
    }

    /// Returns `true` if the op may fail at run time, depending on the values of its operands. Rewrites keep such an op
    /// even if its results are unused. Rewrites never move the op to a position where it would run more often: for
    /// example, they do not hoist it out of a loop that may run no steps.
    fn may_fail_at_run_time(&self) -> bool {
        true
    }

    /// Returns, for each operand, the axis that corresponds to `axis` of the results, like
    /// [`Op::lanes_along`](crate::ops::Op::lanes_along). Returns `None` if the indices along `axis` are not computed
    /// independently. An op on whole sequences must implement this method to be usable in a stepper, a sequence program
    /// that is called one step at a time.
    fn lanes_along(&self, _axis: usize, _operands: &[&TensorType], _results: &[&TensorType]) -> Option<Lanes> {
        None
    }

    /// Returns `true` if the op is less accurate when computed in half precision than when computed in f32 and rounded
    /// once.
    fn loses_precision_in_half(&self) -> bool {
        false
    }

    /// Expresses the op in terms of other ops: adds them to the open graph and returns their results. The results must
    /// have the types that [`infer`](CustomOp::infer) returns. Returns `None` if the op has no composition.
    ///
    /// A backend that compiles whole loops or programs compiles the composition, so it can also compile loops that
    /// contain the op. A program that runs op by op calls the backend's kernel for the op, or falls back to the
    /// composition if the backend has no such kernel.
    ///
    /// The composition may contain other custom ops, loops, and functions with derivative rules. Derivatives and
    /// batching do not use it: they use [`jvp`](CustomOp::jvp), [`vjp`](CustomOp::vjp) and [`batch`](CustomOp::batch).
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::error::{Place, Result};
    /// use funcify::ops::{Attributes, Custom, CustomOp, EvalContext, Failed, batch_elementwise};
    /// use funcify::{Dim, Graph, HostTensor, Scalar, TensorType, Value, custom_op, evaluate, vmap::Batched};
    ///
    /// #[derive(Clone, Copy, Debug)]
    /// struct Cube;
    /// custom_op!(Cube, "cube", |_attributes| Ok(Cube));
    ///
    /// impl CustomOp for Cube {
    ///     fn infer(&self, _: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
    ///         Ok(inputs.to_vec())
    ///     }
    ///
    ///     fn eval(&self, _: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
    ///         let x = &inputs[0];
    ///         Ok(vec![HostTensor::from_fn(x.dtype(), x.shape(), |at| Scalar::Float(x.at(at).as_f64().powi(3)))])
    ///     }
    ///
    ///     fn attributes(&self) -> Attributes {
    ///         Attributes::new()
    ///     }
    ///
    ///     fn batch(&self, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
    ///         batch_elementwise(Custom::new(*self), size, operands)
    ///     }
    ///
    ///     fn composition(&self, operands: &[Value]) -> Result<Option<Vec<Value>>, Failed> {
    ///         Ok(Some(vec![operands[0] * operands[0] * operands[0]]))
    ///     }
    /// }
    ///
    /// let cubes = Graph::build("cubes", |g| funcify::apply(Custom::new(Cube), &[g.input("x", "f32[N]")])[0])?;
    /// let cubes = evaluate(&cubes, &[HostTensor::from([2.0f32, 3.0])])?;
    /// assert_eq!(cubes, [HostTensor::from([8.0f32, 27.0])]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    fn composition(&self, _operands: &[Value]) -> Result<Option<Vec<Value>>, Failed> {
        Ok(None)
    }
}

/// An op from another crate, wrapped for [`Op`].
#[derive(Clone, Debug)]
pub struct Custom {
    name: &'static str,
    pub(super) op: Arc<dyn CustomOp>,
}

impl Custom {
    /// Wraps an op, and takes its name from [`OpKey::NAME`].
    pub fn new<O: CustomOp + OpKey>(op: O) -> Self {
        Custom { name: O::NAME, op: Arc::new(op) }
    }

    /// Returns the op as an `O`, or `None` if the op is of another type.
    pub fn downcast<O: CustomOp>(&self) -> Option<&O> {
        let op: &dyn Any = &*self.op;
        op.downcast_ref()
    }
}

impl OpText for Custom {
    fn text_name(&self) -> &'static str {
        self.name
    }

    fn text_attributes(&self) -> Attributes {
        self.op.attributes()
    }
}

impl OpRules for Custom {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        self.op.infer(at, inputs)
    }

    fn eval(
        &self,
        context: &mut EvalContext<'_>,
        inputs: &[HostTensor],
        outputs: &[TensorType],
    ) -> Result<Vec<HostTensor>> {
        self.op.eval(context, inputs, outputs)
    }

    fn batch(&self, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
        self.op.batch(size, operands)
    }

    fn jvp(&self, operands: &[Dual]) -> Result<Vec<Dual>, Failed> {
        self.op.jvp(operands)?.ok_or_else(|| self.no_derivative(&primals(operands), "forward", "jvp"))
    }

    fn vjp(&self, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
        self.op.vjp(context, cotangents)?.ok_or_else(|| self.no_derivative(context.operands, "reverse", "vjp"))
    }
}

impl Custom {
    fn no_derivative(&self, operands: &[Value], mode: &str, rule: &str) -> Failed {
        let reason = format!("the custom op has no rule for {mode} mode");
        let fix = format!("implement `CustomOp::{rule}` for it, or keep it out of the derivative with `stop_gradient`");
        no_derivative(self.name, operands, "the op", &reason, &fix)
    }

    /// Returns the op's [composition](CustomOp::composition) for operands of these types as a graph, or `None` if the
    /// op has no composition. Returns an error if the composition's results do not have the types `outputs`.
    #[doc(hidden)]
    pub fn composition(&self, at: &Place, inputs: &[TensorType], outputs: &[TensorType]) -> Result<Option<Graph>> {
        let mut is_composed = true;
        let mut operands = Graph::new(self.name);
        inputs.iter().for_each(|ty| _ = operands.push_input("operand", ty.clone(), false));
        let graph = tracer::build(self.name, at.site, |_| {
            tracer::reserve_symbols(&operands);
            let operand = |(index, ty): (usize, &TensorType)| {
                tracer::input(&format!("operand{index}"), ty.clone(), false, at.site)
            };
            let operands: Vec<Value> = inputs.iter().enumerate().map(operand).collect();
            let results = at_site(at.site, || self.op.composition(&operands))?;
            is_composed = results.is_some();
            let named = |(index, value)| (format!("result{index}"), value);
            Ok(Named(results.unwrap_or_default().into_iter().enumerate().map(named).collect()))
        })?;
        if !is_composed {
            return Ok(None);
        }
        let fix = || format!("return the types of `CustomOp::infer` from `CustomOp::composition` of `{}`", self.name);
        if graph.outputs().len() != outputs.len() {
            return Err(at.mismatch("the results of its composition", outputs.len(), graph.outputs().len(), fix()));
        }
        for (index, expected) in outputs.iter().enumerate() {
            let found = graph.output_type(index);
            if found != expected {
                return Err(at.mismatch(format!("result {index} of its composition"), expected, found, fix()));
            }
        }
        Ok(Some(graph.without_rules()?.unwrap_or(graph)))
    }
}

/// A registry entry for an op of another crate, which the parser uses to build the op.
#[doc(hidden)]
pub struct CustomOpEntry {
    /// The op's name in the text form.
    pub name: &'static str,
    /// Builds the op from its attributes. On failure, returns a description of the expected attribute.
    pub parse: fn(&mut Attributes) -> Result<Op, String>,
}

inventory::collect!(CustomOpEntry);

/// Returns an op name that is registered twice or is already used by an op of this crate, or `None` if all names are
/// unique.
#[doc(hidden)]
pub fn duplicate_op_name() -> Option<&'static str> {
    let mut names: Vec<&'static str> = inventory::iter::<CustomOpEntry>().map(|entry| entry.name).collect();
    names.extend(crate::ops::all_names());
    names.sort_unstable();
    names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// Returns the names of the ops that other crates registered.
#[doc(hidden)]
pub fn custom_names() -> impl Iterator<Item = &'static str> {
    inventory::iter::<CustomOpEntry>().map(|entry| entry.name)
}

pub(in crate::ops) fn parse(name: &str, attributes: &mut Attributes) -> Option<Result<Op, String>> {
    let entry = inventory::iter::<CustomOpEntry>().find(|entry| entry.name == name)?;
    Some(match duplicate_op_name() {
        Some(twice) => Err(format!("every op to be registered once, but `{twice}` is registered twice")),
        None => (entry.parse)(attributes),
    })
}

/// Registers an op of another crate, given its type, its name, and a closure that builds the op from attributes.
///
/// `custom_op!(MyOp, "my_op", |attributes| Ok(MyOp { axis: attributes.take_usize("axis")? }));`
#[macro_export]
macro_rules! custom_op {
    ($op:ty, $name:literal, |$attributes:ident| $parse:expr) => {
        impl $crate::ops::OpKey for $op {
            const NAME: &'static str = $name;
            fn of(op: &$crate::ops::Op) -> ::core::option::Option<&Self> {
                match op {
                    $crate::ops::Op::Custom(custom) => custom.downcast::<$op>(),
                    _ => ::core::option::Option::None,
                }
            }
        }

        $crate::inventory::submit! {
            $crate::ops::CustomOpEntry {
                name: $name,
                parse: |$attributes| {
                    let op: ::core::result::Result<$op, ::std::string::String> = $parse;
                    op.map(|op| $crate::ops::Op::from($crate::ops::Custom::new(op)))
                },
            }
        }
    };
}
