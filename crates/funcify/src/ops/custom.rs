//! Ops from other crates: a trait object in the closed set, and a registry for their text form.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use super::{Attributes, EvalContext, Failed, Op, OpKey, OpRules};
use crate::derivative::{Cotangents, Dual, VjpContext, no_derivative, primals};
use crate::error::{Place, Result};
use crate::host::HostTensor;
use crate::types::{Dim, TensorType};
use crate::value::Value;
use crate::vmap::Batched;

/// An op that another crate defines. [`custom_op!`](crate::custom_op) makes it known.
pub trait CustomOp: Any + Debug + Send + Sync {
    /// The type rule.
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>>;

    /// The reference evaluation. `outputs` are the inferred types.
    fn eval(
        &self,
        context: &mut EvalContext<'_>,
        inputs: &[HostTensor],
        outputs: &[TensorType],
    ) -> Result<Vec<HostTensor>>;

    /// The attributes as the text form shows them.
    fn attributes(&self) -> Attributes;

    /// The batching rule: adds to the open trace, by [`apply`](crate::apply) and the methods of values, what the op
    /// means for `size` lanes, and gives its results. Some operand has lanes.
    /// [`batch_elementwise`](super::batch_elementwise) is that of an op that works element by element. [`OpRules`] says what
    /// holds of the rules.
    fn batch(&self, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed>;

    /// The forward rule: adds the op and the tangents of its results, as [`OpRules::jvp`](super::OpRules::jvp).
    /// [`jvp_with`](crate::derivative::jvp_with) helps. `None` if the op has none, which is an error where a program
    /// asks for it.
    fn jvp(&self, _operands: &[Dual]) -> Result<Option<Vec<Dual>>, Failed> {
        Ok(None)
    }

    /// The reverse rule: adds the cotangents of the operands, as [`OpRules::vjp`](super::OpRules::vjp). `None` if the op
    /// has none, which is an error where a program asks for it.
    fn vjp(&self, _context: &VjpContext<'_>, _cotangents: &[Option<Value>]) -> Result<Option<Cotangents>, Failed> {
        Ok(None)
    }
}

/// An op of another crate, in the closed set.
#[derive(Clone, Debug)]
pub struct Custom {
    name: &'static str,
    op: Arc<dyn CustomOp>,
}

impl Custom {
    /// Wraps an op. Its name is that of its key.
    pub fn new<O: CustomOp + OpKey>(op: O) -> Self {
        Custom { name: O::NAME, op: Arc::new(op) }
    }

    /// The op as the type that it has.
    pub fn downcast<O: CustomOp>(&self) -> Option<&O> {
        let op: &dyn Any = &*self.op;
        op.downcast_ref()
    }
}

impl OpRules for Custom {
    fn name(&self) -> &'static str {
        self.name
    }

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

    fn attributes(&self) -> Attributes {
        self.op.attributes()
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
        let reason = format!("the op of another crate has no rule for {mode} mode");
        let fix = format!("implement `CustomOp::{rule}` for it, or keep it out of the derivative with `stop_gradient`");
        no_derivative(self.name, operands, "the op", &reason, &fix)
    }
}

/// How the text form of an op of another crate is read.
pub struct CustomOpEntry {
    /// The op's name.
    pub name: &'static str,
    /// Reads its attributes; the error is what was expected.
    pub parse: fn(&mut Attributes) -> Result<Op, String>,
}

inventory::collect!(CustomOpEntry);

/// A name that two crates register, or that is an op of this crate.
pub(crate) fn name_taken_twice() -> Option<&'static str> {
    let mut names: Vec<&'static str> = inventory::iter::<CustomOpEntry>().map(|entry| entry.name).collect();
    names.extend(super::all_names());
    names.sort_unstable();
    names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// The names of the ops that other crates registered.
pub(crate) fn custom_names() -> impl Iterator<Item = &'static str> {
    inventory::iter::<CustomOpEntry>().map(|entry| entry.name)
}

pub(super) fn parse(name: &str, attributes: &mut Attributes) -> Option<Result<Op, String>> {
    let entry = inventory::iter::<CustomOpEntry>().find(|entry| entry.name == name)?;
    Some(match name_taken_twice() {
        Some(twice) => Err(format!("each op to be registered once, as `{twice}` is not")),
        None => (entry.parse)(attributes),
    })
}

/// Makes an op of another crate known: its name, and how its attributes are read.
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
