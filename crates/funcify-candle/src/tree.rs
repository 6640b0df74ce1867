//! Defines trees of Candle tensors, used as carries, sequences and results of closure loops.

use std::collections::BTreeMap;

use candle_core::{Result, Tensor};
use candle_nn::rnn::{GRUState, LSTMState};
use funcify_core::error::Place;
use funcify_core::tree::Path;

use crate::errors;

/// A structure whose leaves are tensors. The trait is implemented for tensors, tuples, arrays, `Vec`, `Option`, `Box`,
/// maps with string keys, and the states of `candle_nn`'s recurrent networks. It is the counterpart of
/// [`funcify_core::Tree`], whose leaves are `Value`s.
///
/// A loop carries only the leaves. Every carry must have the structure of the initial one: a step that returns tensors
/// at different paths (for example, `None` instead of `Some`) is an error. A field that is not a tensor, such as a
/// counter or a flag, always keeps its value from the initial carry. If steps have to change such a field, make it a
/// tensor.
///
/// To implement the trait for your own structure, define its two methods:
///
/// ```
/// use candle_core::Tensor;
/// use funcify::tree::Path;
/// use funcify_candle::TensorTree;
///
/// struct State {
///     fast: Tensor,
///     slow: Tensor,
/// }
///
/// impl TensorTree for State {
///     fn visit(&self, path: &Path<'_>, visit: &mut dyn FnMut(&Path<'_>, &Tensor)) {
///         self.fast.visit(&path.key("fast"), visit);
///         self.slow.visit(&path.key("slow"), visit);
///     }
///     fn rebuild(&self, next: &mut dyn FnMut() -> candle_core::Result<Tensor>) -> candle_core::Result<Self> {
///         Ok(State { fast: self.fast.rebuild(next)?, slow: self.slow.rebuild(next)? })
///     }
/// }
/// ```
pub trait TensorTree: Sized + Send + Sync + 'static {
    /// Calls `visit` with the path and the tensor of each leaf. Every call must visit the leaves in the same order.
    fn visit(&self, path: &Path<'_>, visit: &mut dyn FnMut(&Path<'_>, &Tensor));

    /// Returns the same structure with new leaves. Calls `next` for each leaf, in the order of
    /// [`visit`](TensorTree::visit).
    fn rebuild(&self, next: &mut dyn FnMut() -> Result<Tensor>) -> Result<Self>;
}

/// Returns the leaves of a tree.
pub(crate) fn leaves<T: TensorTree>(tree: &T) -> Vec<Tensor> {
    let mut leaves = Vec::new();
    tree.visit(&Path::Root, &mut |_, tensor| leaves.push(tensor.clone()));
    leaves
}

/// Returns the names of the leaves of a tree. Each name is `root` followed by the leaf's path, as in `carry_0`.
pub(crate) fn names<T: TensorTree>(tree: &T, root: &str) -> Vec<String> {
    let mut names = Vec::new();
    tree.visit(&Path::Root, &mut |path, _| names.push(path.name(root)));
    names
}

/// Returns an error if the leaves do not have the expected names: leaves are matched by position, so the loop would
/// otherwise assign tensors to the wrong paths. Accepts a different number of leaves, which the loop itself rejects.
pub(crate) fn check_names<T: TensorTree>(at: &Place, component: &str, expected: &[String], found: &T) -> Result<()> {
    let found = names(found, component);
    if expected == found || expected.len() != found.len() {
        return Ok(());
    }
    let listed = |names: &[String]| format!("tensors at {}", names.join(", "));
    let fix = "return tensors at the same paths in every step, with zeros instead of `None`";
    Err(errors::into_candle(at.mismatch(component, listed(expected), listed(&found), fix)))
}

/// Returns a tree with the structure of `tree` and the given leaves.
pub(crate) fn rebuild<T: TensorTree>(tree: &T, leaves: impl IntoIterator<Item = Tensor>) -> Result<T> {
    let mut leaves = leaves.into_iter();
    let missing = || candle_core::Error::Msg("a tree requested more leaves than it has".into());
    tree.rebuild(&mut || leaves.next().ok_or_else(missing))
}

/// Returns a copy of a tree with detached leaves.
pub(crate) fn detach<T: TensorTree>(tree: &T) -> Result<T> {
    rebuild(tree, leaves(tree).iter().map(Tensor::detach))
}

impl TensorTree for Tensor {
    fn visit(&self, path: &Path<'_>, visit: &mut dyn FnMut(&Path<'_>, &Tensor)) {
        visit(path, self);
    }
    fn rebuild(&self, next: &mut dyn FnMut() -> Result<Tensor>) -> Result<Self> {
        next()
    }
}

impl TensorTree for () {
    fn visit(&self, _: &Path<'_>, _: &mut dyn FnMut(&Path<'_>, &Tensor)) {}
    fn rebuild(&self, _: &mut dyn FnMut() -> Result<Tensor>) -> Result<Self> {
        Ok(())
    }
}

impl TensorTree for LSTMState {
    fn visit(&self, path: &Path<'_>, visit: &mut dyn FnMut(&Path<'_>, &Tensor)) {
        visit(&path.key("h"), &self.h);
        visit(&path.key("c"), &self.c);
    }
    fn rebuild(&self, next: &mut dyn FnMut() -> Result<Tensor>) -> Result<Self> {
        Ok(LSTMState::new(next()?, next()?))
    }
}

impl TensorTree for GRUState {
    fn visit(&self, path: &Path<'_>, visit: &mut dyn FnMut(&Path<'_>, &Tensor)) {
        visit(&path.key("h"), &self.h);
    }
    fn rebuild(&self, next: &mut dyn FnMut() -> Result<Tensor>) -> Result<Self> {
        Ok(GRUState { h: next()? })
    }
}

impl<T: TensorTree> TensorTree for Option<T> {
    fn visit(&self, path: &Path<'_>, visit: &mut dyn FnMut(&Path<'_>, &Tensor)) {
        if let Some(tree) = self {
            tree.visit(path, visit);
        }
    }
    fn rebuild(&self, next: &mut dyn FnMut() -> Result<Tensor>) -> Result<Self> {
        self.as_ref().map(|tree| tree.rebuild(next)).transpose()
    }
}

impl<T: TensorTree> TensorTree for Box<T> {
    fn visit(&self, path: &Path<'_>, visit: &mut dyn FnMut(&Path<'_>, &Tensor)) {
        (**self).visit(path, visit);
    }
    fn rebuild(&self, next: &mut dyn FnMut() -> Result<Tensor>) -> Result<Self> {
        (**self).rebuild(next).map(Box::new)
    }
}

impl<T: TensorTree> TensorTree for Vec<T> {
    fn visit(&self, path: &Path<'_>, visit: &mut dyn FnMut(&Path<'_>, &Tensor)) {
        for (index, tree) in self.iter().enumerate() {
            tree.visit(&path.index(index), visit);
        }
    }
    fn rebuild(&self, next: &mut dyn FnMut() -> Result<Tensor>) -> Result<Self> {
        self.iter().map(|tree| tree.rebuild(next)).collect()
    }
}

impl<T: TensorTree, const N: usize> TensorTree for [T; N] {
    fn visit(&self, path: &Path<'_>, visit: &mut dyn FnMut(&Path<'_>, &Tensor)) {
        for (index, tree) in self.iter().enumerate() {
            tree.visit(&path.index(index), visit);
        }
    }
    fn rebuild(&self, next: &mut dyn FnMut() -> Result<Tensor>) -> Result<Self> {
        let trees: Vec<T> = self.iter().map(|tree| tree.rebuild(next)).collect::<Result<_>>()?;
        trees.try_into().map_err(|_| candle_core::Error::Msg("an array has another length than its tree".into()))
    }
}

impl<K: Ord + Clone + AsRef<str> + Send + Sync + 'static, T: TensorTree> TensorTree for BTreeMap<K, T> {
    fn visit(&self, path: &Path<'_>, visit: &mut dyn FnMut(&Path<'_>, &Tensor)) {
        for (key, tree) in self {
            tree.visit(&path.key(key.as_ref()), visit);
        }
    }
    fn rebuild(&self, next: &mut dyn FnMut() -> Result<Tensor>) -> Result<Self> {
        self.iter().map(|(key, tree)| Ok((key.clone(), tree.rebuild(next)?))).collect()
    }
}

macro_rules! tuple_trees {
    ($(($($name:ident $index:tt),+))*) => {$(
        impl<$($name: TensorTree),+> TensorTree for ($($name,)+) {
            fn visit(&self, path: &Path<'_>, visit: &mut dyn FnMut(&Path<'_>, &Tensor)) {
                $(self.$index.visit(&path.index($index), visit);)+
            }
            fn rebuild(&self, next: &mut dyn FnMut() -> Result<Tensor>) -> Result<Self> {
                Ok(($(self.$index.rebuild(next)?,)+))
            }
        }
    )*};
}

funcify_core::for_tuples!(tuple_trees);
