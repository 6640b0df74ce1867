//! Tensor contractions, composed from matrix products: `dot_general` and `einsum`.

use super::*;

impl Value {
    /// Contracts this value with `right` over the pairs of axes in `contracting`, separately for each index along the
    /// pairs of axes in `batch`. Each pair consists of an axis of this value and an axis of `right`. The axes of the
    /// result are ordered as in StableHLO's `dot_general`: the batch axes, the remaining axes of this value, and the
    /// remaining axes of `right`. Both values must have the same dtype. Integers wrap around, and empty sums are 0.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::Graph;
    /// let graph = Graph::build("scores", |g| {
    ///     let (q, k) = (g.input("q", "f32[B,T,H,64]"), g.input("k", "f32[B,S,H,64]"));
    ///     q.dot_general(k, &[(-1, -1)], &[(0, 0), (2, 2)])
    /// })?;
    /// assert_eq!(graph.output_type(0).to_string(), "f32[B,H,T,S]");
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn dot_general(self, right: Value, contracting: &[(i64, i64)], batch: &[(i64, i64)]) -> Value {
        let operands = [self, right];
        if self.is_failed() || right.is_failed() {
            return emit_value(MatMul, &operands, Site::caller());
        }
        let normal = |(left_axis, right_axis): &(i64, i64)| {
            let left_axis = normal_axis("dot_general", *left_axis, self.rank(), &operands)?;
            Some((left_axis, normal_axis("dot_general", *right_axis, right.rank(), &operands)?))
        };
        let pairs = contracting.iter().map(normal).collect::<Option<Vec<_>>>();
        let (Some(pairs), Some(batch)) = (pairs, batch.iter().map(normal).collect::<Option<Vec<_>>>()) else {
            return Value::failed();
        };
        let (shape, right_shape) = (self.shape(), right.shape());
        let all: Vec<(usize, usize)> = batch.iter().chain(&pairs).copied().collect();
        for (index, (a, b)) in all.iter().enumerate() {
            if all[..index].iter().any(|(other_a, other_b)| a == other_a || b == other_b) {
                return fail_value("dot_general", Site::caller(), &operands, |at| {
                    let found = format!("axis {a} of the left operand or axis {b} of the right one twice");
                    at.mismatch("the axes", "each axis in one pair", found, "use each axis once")
                });
            }
            if shape[*a] != right_shape[*b] {
                return fail_value("dot_general", Site::caller(), &operands, |at| {
                    let expected = format!("the size {}, like axis {a} of the left operand", shape[*a]);
                    let component = format!("axis {b} of the right operand");
                    at.mismatch(component, expected, right.ty(), "pair axes of the same size")
                });
            }
        }
        let axes = |pairs: &[(usize, usize)], pick: fn(&(usize, usize)) -> usize| pairs.iter().map(pick).collect();
        let left = Arranged::new(self, axes(&batch, |pair| pair.0), axes(&pairs, |pair| pair.0));
        let right = Arranged::new(right, axes(&batch, |pair| pair.1), axes(&pairs, |pair| pair.1));
        let product = left.matrices(true).matmul(right.matrices(false));
        let dims = [left.sizes(&left.batch), left.sizes(&left.free), right.sizes(&right.free)].concat();
        if product.is_failed() || product.shape().dims() == dims { product } else { product.reshape(dims) }
    }
}

/// An operand of a product, with its axes grouped into batch, free and contracted axes.
struct Arranged {
    value: Value,
    shape: Shape,
    batch: Vec<usize>,
    free: Vec<usize>,
    contracted: Vec<usize>,
}

impl Arranged {
    fn new(value: Value, batch: Vec<usize>, contracted: Vec<usize>) -> Self {
        let free = (0..value.rank()).filter(|axis| !batch.contains(axis) && !contracted.contains(axis)).collect();
        Arranged { value, shape: value.shape(), batch, free, contracted }
    }

    fn sizes(&self, axes: &[usize]) -> Vec<Dim> {
        axes.iter().map(|axis| self.shape[*axis].clone()).collect()
    }

    /// Transposes and reshapes the operand to a batch of matrices. For the left operand, the free axes become the rows
    /// and the contracted axes become the columns. For the right operand, the contracted axes become the rows and the
    /// free axes the columns.
    #[track_caller]
    fn matrices(&self, is_left: bool) -> Value {
        let (rows, columns) = if is_left { (&self.free, &self.contracted) } else { (&self.contracted, &self.free) };
        let order = [self.batch.as_slice(), rows, columns].concat();
        let in_order = order.iter().copied().eq(0..order.len());
        let arranged = if in_order { self.value } else { self.value.transpose(order) };
        let elements = |axes: &[usize]| Shape::from(self.sizes(axes)).elements();
        let dims = [self.sizes(&self.batch), vec![elements(rows), elements(columns)]].concat();
        if arranged.shape().dims() == dims { arranged } else { arranged.reshape(dims) }
    }
}

/// Computes a sum of products written with one letter per axis, like NumPy's `einsum("bij,bjk->bik", &[x, y])`.
///
/// The operands are multiplied from left to right. Each product is summed over the letters that occur neither in later
/// operands nor in the result. All operands must have the same dtype, and integers wrap around. A letter must not occur
/// twice in an operand, and must have the same size in all operands (size 1 is not broadcast). The equation must
/// contain `->` and the letters of the result.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, einsum, evaluate};
///
/// let graph = Graph::build("outer", |g| einsum("i,j->ij", &[g.input("x", "f32[2]"), g.input("y", "f32[2]")]))?;
/// let results = evaluate(&graph, &[[1f32, 2.0].into(), [3f32, 4.0].into()])?;
/// assert_eq!(results, [[[3f32, 4.0], [6.0, 8.0]].into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn einsum(equation: &str, operands: &[Value]) -> Value {
    if operands.iter().any(|operand| operand.is_failed()) {
        return Value::failed();
    }
    let (terms, result) = match parse(equation, operands) {
        Ok(parsed) => parsed,
        Err((component, expected, found)) => {
            return fail_value("einsum", Site::caller(), operands, |at| {
                at.mismatch(component, expected, found, "write one letter per axis, as in \"bij,bjk->bik\"")
            });
        }
    };
    let mut rest = operands.iter().copied().zip(terms);
    let Some(first) = rest.next() else {
        return Value::failed();
    };
    let mut rest: Vec<(Value, Vec<char>)> = rest.rev().collect();
    let mut product = first;
    while let Some(next) = rest.pop() {
        let later = |letter: &char| result.contains(letter) || rest.iter().any(|(_, term)| term.contains(letter));
        let left = summed(product.clone(), |letter| later(letter) || next.1.contains(letter));
        let right = summed(next, |letter| later(letter) || left.1.contains(letter));
        let place = |term: &[char], letter: &char| {
            term.iter().position(|other| other == letter).expect("a shared letter occurs in both terms") as i64
        };
        let shared: Vec<char> = left.1.iter().copied().filter(|letter| right.1.contains(letter)).collect();
        let (batch, contracted): (Vec<char>, Vec<char>) = shared.iter().partition(|letter| later(letter));
        let pairs = |letters: &[char]| -> Vec<(i64, i64)> {
            letters.iter().map(|letter| (place(&left.1, letter), place(&right.1, letter))).collect()
        };
        let value = left.0.dot_general(right.0, &pairs(&contracted), &pairs(&batch));
        let free = left.1.iter().chain(&right.1).filter(|letter| !shared.contains(letter));
        product = (value, batch.iter().chain(free).copied().collect());
    }
    let (value, term) = summed(product, |letter| result.contains(letter));
    let order: Vec<usize> = result.iter().filter_map(|letter| term.iter().position(|other| other == letter)).collect();
    if order.iter().copied().eq(0..order.len()) || value.is_failed() { value } else { value.transpose(order) }
}

/// Sums a value over the axes whose letters `keep` rejects. Returns the sum and the letters of the remaining axes.
#[track_caller]
fn summed((value, term): (Value, Vec<char>), keep: impl Fn(&char) -> bool) -> (Value, Vec<char>) {
    let axes: Vec<i64> = (0..term.len()).filter(|axis| !keep(&term[*axis])).map(|axis| axis as i64).collect();
    if axes.is_empty() {
        return (value, term);
    }
    (value.sum(super::Axes::These(axes)), term.into_iter().filter(keep).collect())
}

/// A parsed [`einsum`] equation: the letters of each operand, and the letters of the result.
type Parsed = (Vec<Vec<char>>, Vec<char>);

fn parse(equation: &str, operands: &[Value]) -> Result<Parsed, (String, String, String)> {
    let whole = || "the equation".to_string();
    let letters: String = equation.chars().filter(|letter| !letter.is_whitespace()).collect();
    let arrow = || (whole(), "operands, `->` and the result".to_string(), format!("`{equation}`"));
    let (terms, result) = letters.split_once("->").ok_or_else(arrow)?;
    let terms: Vec<Vec<char>> = terms.split(',').map(|term| term.chars().collect()).collect();
    let result: Vec<char> = result.chars().collect();
    if terms.len() != operands.len() {
        return Err((whole(), format!("{} operands", operands.len()), format!("{} in `{equation}`", terms.len())));
    }
    let mut sizes: Vec<(char, Dim)> = Vec::new();
    for (term, operand) in terms.iter().zip(operands) {
        let name: String = term.iter().collect();
        let component = || format!("operand `{name}`");
        if term.len() != operand.rank() {
            return Err((component(), format!("{} axes", term.len()), operand.ty().to_string()));
        }
        for (axis, letter) in term.iter().enumerate() {
            let size = operand.dim(axis as i64);
            if !letter.is_alphabetic() || term[..axis].contains(letter) {
                return Err((component(), "letters, each once".to_string(), format!("`{letter}` in `{name}`")));
            }
            match sizes.iter().find(|(other, _)| other == letter) {
                Some((_, known)) if *known != size => {
                    return Err((component(), format!("the size {known} for `{letter}`"), operand.ty().to_string()));
                }
                Some(_) => {}
                None => sizes.push((*letter, size)),
            }
        }
    }
    for (axis, letter) in result.iter().enumerate() {
        if result[..axis].contains(letter) || !sizes.iter().any(|(other, _)| other == letter) {
            return Err((
                "the result".to_string(),
                "letters of the operands, each once".to_string(),
                format!("`{letter}`"),
            ));
        }
    }
    Ok((terms, result))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Scalar, for_each_index};
    use crate::{DType, Graph, HostTensor, evaluate};

    fn numbers(shape: &[usize], seed: usize) -> HostTensor {
        let mut next = seed;
        HostTensor::from_fn(DType::F64, shape, |_| {
            next = (next * 7 + 3) % 23;
            Scalar::Float(next as f64 - 11.0)
        })
    }

    /// Evaluates an [`einsum`] equation element by element, as a reference.
    fn plain(equation: &str, operands: &[HostTensor]) -> HostTensor {
        let (terms, result) = equation.split_once("->").unwrap();
        let terms: Vec<Vec<char>> = terms.split(',').map(|term| term.chars().collect()).collect();
        let mut letters: Vec<(char, usize)> = Vec::new();
        for (term, operand) in terms.iter().zip(operands) {
            for (letter, size) in term.iter().zip(operand.shape()) {
                if !letters.iter().any(|(other, _)| other == letter) {
                    letters.push((*letter, *size));
                }
            }
        }
        let place = |letter: char| letters.iter().position(|(other, _)| *other == letter).unwrap();
        let shape: Vec<usize> = result.chars().map(|letter| letters[place(letter)].1).collect();
        let sizes: Vec<usize> = letters.iter().map(|(_, size)| *size).collect();
        HostTensor::from_fn(DType::F64, &shape, |index| {
            let mut sum = 0.0;
            for_each_index(&sizes, |all| {
                if result.chars().zip(index).all(|(letter, i)| all[place(letter)] == *i) {
                    let of = |term: &Vec<char>| term.iter().map(|letter| all[place(*letter)]).collect::<Vec<_>>();
                    let factors = terms.iter().zip(operands).map(|(term, x)| x.at(&of(term)).as_f64());
                    sum += factors.product::<f64>();
                }
            });
            Scalar::Float(sum)
        })
    }

    fn check(equation: &str, shapes: &[&[usize]]) {
        let operands: Vec<HostTensor> = shapes.iter().enumerate().map(|(i, shape)| numbers(shape, i + 2)).collect();
        let expected = plain(equation, &operands);
        for symbolic in [false, true] {
            let graph = Graph::build("einsum", |b| {
                let terms = equation.split("->").next().unwrap().split(',');
                let inputs = terms.zip(&operands).enumerate().map(|(index, (term, x))| {
                    let names = term.chars().map(|letter| Dim::from(letter.to_string().as_str()));
                    let shape = if symbolic { Shape::new(names) } else { x.ty().shape };
                    b.input(&format!("x{index}"), x.ty().with_shape(shape))
                });
                einsum(equation, &inputs.collect::<Vec<_>>())
            });
            let graph = graph.unwrap_or_else(|error| panic!("{equation}: {error}"));
            assert_eq!(evaluate(&graph, &operands).unwrap(), std::slice::from_ref(&expected), "{graph}");
        }
    }

    #[test]
    fn products_along_any_axes() {
        check("bij,bjk->bik", &[&[2, 3, 4], &[2, 4, 5]]);
        check("ij,kj->ki", &[&[3, 4], &[5, 4]]);
        check("bthd,bshd->bhts", &[&[2, 3, 2, 4], &[2, 5, 2, 4]]);
        check("abc,cad->bd", &[&[2, 3, 4], &[4, 2, 5]]);
        check("i,j->ij", &[&[3], &[4]]);
        check("i,i->", &[&[3], &[3]]);
        check("ij,j->i", &[&[3, 4], &[4]]);
        check("ij->ji", &[&[3, 4]]);
        check("ijk->k", &[&[3, 4, 2]]);
        check("ai,ij,jb->ba", &[&[2, 3], &[3, 4], &[4, 5]]);
        check("ai,aj,ak->a", &[&[2, 3], &[2, 4], &[2, 5]]);
        check("xi,yj->", &[&[2, 3], &[4, 5]]);
        check("i,i,i->i", &[&[4], &[4], &[4]]);
    }

    #[test]
    fn sums_of_nothing_are_zero() {
        check("ij,jk->ik", &[&[2, 0], &[0, 3]]);
        check("ij,jk->ik", &[&[0, 2], &[2, 3]]);
    }

    #[test]
    fn refusals() {
        let refused = |f: fn(Value, Value) -> Value| {
            let graph = Graph::build("f", |b| f(b.input("x", "f32[2,3]"), b.input("y", "f32[3,4]")));
            graph.expect_err("it is rejected").to_string()
        };
        for (f, expected) in [
            ((|x, y| einsum("ij,jk", &[x, y])) as fn(Value, Value) -> Value, "`->`"),
            (|x, y| einsum("ij,jk,kl->il", &[x, y]), "2 operands"),
            (|x, y| einsum("ijk,jk->i", &[x, y]), "3 axes"),
            (|x, y| einsum("ii,jk->i", &[x, y]), "each once"),
            (|x, y| einsum("ij,kj->ik", &[x, y]), "the size 3 for `j`"),
            (|x, y| einsum("ij,jk->iz", &[x, y]), "letters of the operands"),
            (|x, y| x.dot_general(y, &[(0, 0)], &[]), "the size 2"),
            (|x, y| x.dot_general(y, &[(1, 0)], &[(1, 0)]), "each axis in one pair"),
            (|x, y| x.dot_general(y, &[(2, 0)], &[]), "an axis from -2 to 1"),
            (|x, y| x.dot_general(y.cast(DType::F64), &[(1, 0)], &[]), "dtype f32"),
        ] {
            let error = refused(f);
            assert!(error.contains(expected), "{error}\ndoes not say {expected}");
        }
    }
}
