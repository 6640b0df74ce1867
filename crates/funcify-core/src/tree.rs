//! Trees of values: the inputs and outputs of programs, and the carries of loops.

use std::collections::BTreeMap;

use crate::handle::{Failed, Value};

/// A structure whose leaves are [`Value`]s: single values, tuples, arrays, `Vec`, `Option`, maps, and structs with
/// `#[derive(Tree)]`.
///
/// The name of a leaf is its path: the field names, keys and indices from the root to the leaf, joined by `_`.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, Tree, Value, scan};
///
/// #[derive(Tree)]
/// struct Lstm {
///     hidden: Value,
///     cell: Value,
/// }
///
/// let graph = Graph::build("lstm", |g| {
///     let (xs, zero) = (g.input("xs", "f32[T,3]"), g.input("zero", "f32[3]"));
///     let (last, ()) = scan(Lstm { hidden: zero, cell: zero }, xs, |state, x| {
///         let cell = state.cell * 0.5 + x;
///         (Lstm { hidden: cell.tanh(), cell }, ())
///     });
///     last
/// })?;
/// assert_eq!(graph.outputs()[1].name, "cell");
/// # Ok::<(), funcify::Error>(())
/// ```
///
/// The derive macro rejects enums, because the structure of a program must not depend on values.
///
/// ```compile_fail
/// # extern crate funcify_core as funcify;
/// #[derive(funcify::Tree)]
/// enum Either {
///     Left(funcify::Value),
///     Right,
/// }
/// ```
pub trait Tree: Sized {
    /// Calls `visit` with the path and the value of each leaf, in a fixed order.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::tree::Path;
    /// use funcify::{Graph, Tree};
    ///
    /// let mut names = Vec::new();
    /// Graph::build("pair", |g| {
    ///     let pair = (g.input("x", "f32[]"), [g.input("y", "f32[]")]);
    ///     pair.visit(&Path::Root, &mut |path, _| names.push(path.name("pair")));
    ///     pair
    /// })?;
    /// assert_eq!(names, ["pair_0", "pair_1_0"]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    fn visit(&self, path: &Path<'_>, visit: &mut dyn FnMut(&Path<'_>, Value));

    /// Rebuilds the structure with new leaves. Calls `next` for each leaf, in the order of [`visit`](Tree::visit).
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, Tree, evaluate};
    ///
    /// let graph = Graph::build("same", |g| {
    ///     let pair = (g.input("x", "f32[]"), g.input("y", "f32[]"));
    ///     pair.rebuild(&mut || pair.0)
    /// })?;
    /// assert_eq!(evaluate(&graph, &[1f32.into(), 2f32.into()])?, [1f32.into(), 1f32.into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    fn rebuild(&self, next: &mut dyn FnMut() -> Value) -> Self;
}

/// The path from the root of a tree to a leaf.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::tree::Path;
///
/// let weight = Path::Root.key("layers").index(0).key("weight").name("model");
/// assert_eq!(weight, "model_layers_0_weight");
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Path<'a> {
    /// The root of the tree.
    Root,
    /// A field or key below the given path.
    Key(&'a Path<'a>, &'a str),
    /// An index below the given path.
    Index(&'a Path<'a>, usize),
}

impl Path<'_> {
    /// Appends a field or key to the path.
    pub fn key<'a>(&'a self, key: &'a str) -> Path<'a> {
        Path::Key(self, key)
    }

    /// Appends an index to the path.
    pub fn index(&self, index: usize) -> Path<'_> {
        Path::Index(self, index)
    }

    /// Returns the path as a single identifier: `root`, if it is not empty, and the parts of the path, joined by `_`.
    pub fn name(&self, root: &str) -> String {
        match self {
            Path::Root => root.to_string(),
            Path::Key(parent, key) => join(parent.name(root), key),
            Path::Index(parent, index) => join(parent.name(root), &index.to_string()),
        }
    }
}

fn join(parent: String, part: &str) -> String {
    if parent.is_empty() { part.to_string() } else { format!("{parent}_{part}") }
}

/// Returns the leaves of a tree with their names. `root` is the first part of each name.
pub(crate) fn leaves<T: Tree>(tree: &T, root: &str) -> Vec<(String, Value)> {
    let mut leaves = Vec::new();
    tree.visit(&Path::Root, &mut |path, value| leaves.push((path.name(root), value)));
    leaves
}

/// Rebuilds a structure with the given leaves. If `leaves` is too short, the missing leaves become failed values.
pub(crate) fn rebuild<T: Tree>(tree: &T, leaves: &[Value]) -> T {
    let mut index = 0;
    tree.rebuild(&mut || {
        index += 1;
        leaves.get(index - 1).copied().unwrap_or_else(Value::failed)
    })
}

/// Rebuilds a structure with the given results, or with failed values if `results` is an error.
pub(crate) fn rebuild_or_failed<T: Tree>(tree: &T, results: Result<Vec<Value>, Failed>) -> T {
    rebuild(tree, &results.unwrap_or_default())
}

impl Tree for Value {
    fn visit(&self, path: &Path<'_>, visit: &mut dyn FnMut(&Path<'_>, Value)) {
        visit(path, *self);
    }
    fn rebuild(&self, next: &mut dyn FnMut() -> Value) -> Self {
        next()
    }
}

impl Tree for () {
    fn visit(&self, _: &Path<'_>, _: &mut dyn FnMut(&Path<'_>, Value)) {}
    fn rebuild(&self, _: &mut dyn FnMut() -> Value) -> Self {}
}

impl<T: Tree> Tree for Option<T> {
    fn visit(&self, path: &Path<'_>, visit: &mut dyn FnMut(&Path<'_>, Value)) {
        if let Some(tree) = self {
            tree.visit(path, visit);
        }
    }
    fn rebuild(&self, next: &mut dyn FnMut() -> Value) -> Self {
        self.as_ref().map(|tree| tree.rebuild(next))
    }
}

impl<T: Tree> Tree for Box<T> {
    fn visit(&self, path: &Path<'_>, visit: &mut dyn FnMut(&Path<'_>, Value)) {
        (**self).visit(path, visit);
    }
    fn rebuild(&self, next: &mut dyn FnMut() -> Value) -> Self {
        Box::new((**self).rebuild(next))
    }
}

impl<T: Tree> Tree for Vec<T> {
    fn visit(&self, path: &Path<'_>, visit: &mut dyn FnMut(&Path<'_>, Value)) {
        for (index, tree) in self.iter().enumerate() {
            tree.visit(&path.index(index), visit);
        }
    }
    fn rebuild(&self, next: &mut dyn FnMut() -> Value) -> Self {
        self.iter().map(|tree| tree.rebuild(next)).collect()
    }
}

impl<T: Tree, const N: usize> Tree for [T; N] {
    fn visit(&self, path: &Path<'_>, visit: &mut dyn FnMut(&Path<'_>, Value)) {
        for (index, tree) in self.iter().enumerate() {
            tree.visit(&path.index(index), visit);
        }
    }
    fn rebuild(&self, next: &mut dyn FnMut() -> Value) -> Self {
        std::array::from_fn(|index| self[index].rebuild(next))
    }
}

impl<K: Ord + Clone + AsRef<str>, T: Tree> Tree for BTreeMap<K, T> {
    fn visit(&self, path: &Path<'_>, visit: &mut dyn FnMut(&Path<'_>, Value)) {
        for (key, tree) in self {
            tree.visit(&path.key(key.as_ref()), visit);
        }
    }
    fn rebuild(&self, next: &mut dyn FnMut() -> Value) -> Self {
        self.iter().map(|(key, tree)| (key.clone(), tree.rebuild(next))).collect()
    }
}

/// Calls a macro with a description of each tuple of one to twelve elements: `(A 0)`, `(A 0, B 1)`, and so on. An
/// element is described by its type parameter and its index.
#[doc(hidden)]
#[macro_export]
macro_rules! for_tuples {
    ($of_tuples:ident) => {
        $of_tuples! {
            (A 0)
            (A 0, B 1)
            (A 0, B 1, C 2)
            (A 0, B 1, C 2, D 3)
            (A 0, B 1, C 2, D 3, E 4)
            (A 0, B 1, C 2, D 3, E 4, F 5)
            (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
            (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
            (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8)
            (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9)
            (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10)
            (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11)
        }
    };
}

macro_rules! tuple_trees {
    ($(($($name:ident $index:tt),+))*) => {$(
        impl<$($name: Tree),+> Tree for ($($name,)+) {
            fn visit(&self, path: &Path<'_>, visit: &mut dyn FnMut(&Path<'_>, Value)) {
                $(self.$index.visit(&path.index($index), visit);)+
            }
            fn rebuild(&self, next: &mut dyn FnMut() -> Value) -> Self {
                ($(self.$index.rebuild(next),)+)
            }
        }
    )*};
}

for_tuples!(tuple_trees);

/// A list of named outputs.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::Graph;
/// use funcify::tree::Named;
///
/// let graph = Graph::build("named", |g| Named(vec![("double".into(), g.input("x", "f32[]") * 2.0)]))?;
/// assert_eq!(graph.outputs()[0].name, "double");
/// # Ok::<(), funcify::Error>(())
/// ```
pub struct Named(pub Vec<(String, Value)>);

impl Tree for Named {
    fn visit(&self, path: &Path<'_>, visit: &mut dyn FnMut(&Path<'_>, Value)) {
        self.0.iter().for_each(|(name, value)| visit(&path.key(name), *value));
    }

    fn rebuild(&self, next: &mut dyn FnMut() -> Value) -> Self {
        Named(self.0.iter().map(|(name, _)| (name.clone(), next())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::leaves;
    use crate::{Graph, Tree, Value, scan};

    #[derive(Tree, Clone, Copy)]
    struct Cell<T> {
        hidden: T,
        gates: Gates,
    }

    #[derive(Tree, Clone, Copy)]
    struct Gates(Value, [Value; 2]);

    #[derive(Tree, Clone, Copy)]
    struct Nothing;

    #[test]
    fn derived_structs_are_trees_in_a_loop() {
        let graph = Graph::build("cells", |g| {
            let (x, xs) = (g.input("x", "f32[2]"), g.input("xs", "f32[T,2]"));
            let start = Cell { hidden: (x, Nothing), gates: Gates(x, [x, x]) };
            let (last, ys) = scan(start, xs, |cell, x| {
                let Gates(a, [b, c]) = cell.gates;
                let next = Cell { hidden: (cell.hidden.0 + x, Nothing), gates: Gates(b, [c, a]) };
                (next, next.gates)
            });
            Cell { hidden: (last, ys), gates: last.gates }
        });
        let graph = graph.unwrap();
        let names: Vec<&str> = graph.outputs().iter().map(|output| output.name.as_str()).collect();
        let expected = [
            "hidden_0_hidden_0",
            "hidden_0_gates_0",
            "hidden_0_gates_1_0",
            "hidden_0_gates_1_1",
            "hidden_1_0",
            "hidden_1_1_0",
            "hidden_1_1_1",
            "gates_0",
            "gates_1_0",
            "gates_1_1",
        ];
        assert_eq!(names, expected);
        assert_eq!(graph.output_type(4).to_string(), "f32[T,2]");
        assert!(leaves(&Nothing, "").is_empty());
    }
}
