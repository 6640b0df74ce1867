//! Plans ops on words: the 32-bit integers of programs with random bits, stored as the bits of the plan's elements.
//!
//! All `u32` values of a program with random bits are words. Ops that move elements and a few arithmetic ops support
//! words. A cast converts words to numbers.

use funcify_core::ops::Threefry;

use super::*;
use crate::kernels::WordOp;

impl Scope<'_, '_> {
    /// Returns `true` if an operand or the result of a node consists of words.
    pub(super) fn has_words(&self, node: &Node) -> bool {
        let is_words = |value: &ValueId| self.planner.is_words(self.graph.ty(*value).dtype);
        node.inputs.iter().chain(&node.outputs).any(is_words)
    }

    /// Plans an op on words, or one that converts between words and numbers.
    pub(super) fn word_op(&mut self, node: &Node, value: ValueId) -> Result<Value> {
        use GraphOp::{Broadcast, Concat, Pad, Reshape, Reverse, Select, Slice, Transpose};
        let declined = || Declined::new(node.op.name(), "no instruction implements it on random bits yet");
        let is_words = |input: usize| self.planner.is_words(self.graph.ty(node.inputs[input]).dtype);
        let is_float = |input: usize| self.graph.ty(node.inputs[input]).dtype.is_float();
        let is_exact =
            |to: DType| self.planner.rounding(to).is_none() || self.planner.ranges.is_exact(self.graph, node.inputs[0]);
        let word = match &node.op {
            GraphOp::Threefry(op) => return Ok(Value::Tensor(self.threefry(op, node, value)?)),
            GraphOp::Cast(cast) if self.planner.is_words(cast.dtype) && is_words(0) => {
                return Ok(Value::Tensor(self.tensor(node.inputs[0])?));
            }
            GraphOp::Cast(cast) if self.planner.is_words(cast.dtype) && !is_float(0) => WordOp::OfNumber,
            // Includes only dtypes for which the cast rounds at most once, because rounding twice may not yield the
            // nearest number.
            GraphOp::Cast(cast) if is_words(0) && cast.dtype != DType::Bool && is_exact(cast.dtype) => WordOp::ToNumber,
            GraphOp::Bits(ops::Bits::ShiftLeft) => WordOp::ShiftLeft,
            GraphOp::Bits(ops::Bits::ShiftRightLogical) => WordOp::ShiftRight,
            GraphOp::Binary(ops::Binary::And) => WordOp::And,
            GraphOp::Binary(ops::Binary::Or) => WordOp::Or,
            GraphOp::Binary(ops::Binary::Xor) => WordOp::Xor,
            GraphOp::Binary(ops::Binary::Add) => WordOp::Add,
            GraphOp::Binary(ops::Binary::Sub) => WordOp::Sub,
            GraphOp::Binary(ops::Binary::Mul) => WordOp::Mul,
            Broadcast(_) | Transpose(_) | Reshape(_) | Slice(_) | Reverse(_) | Concat(_) | Pad(_) | Select(_) => {
                return self.single_result(node, value, node.op.name());
            }
            GraphOp::Take(_) | GraphOp::Gather(_) | GraphOp::DynamicSlice(_) if !is_words(1) => {
                return self.single_result(node, value, node.op.name());
            }
            GraphOp::DynamicUpdate(_) if !is_words(2) => return self.single_result(node, value, node.op.name()),
            GraphOp::Scatter(op) if op.mode == ScatterMode::Set && !is_words(1) => {
                return self.single_result(node, value, node.op.name());
            }
            _ => return Err(declined()),
        };
        let operands = node.inputs.iter().map(|input| self.tensor(*input)).collect::<Result<Vec<_>>>()?;
        self.planner.emitter.fired.note(Transformation::Words);
        Ok(Value::Tensor(self.emit_elementwise(Op::Word(word), &operands, value)?))
    }

    /// Emits code that generates the random words for each key and starting counter.
    fn threefry(&mut self, op: &Threefry, node: &Node, value: ValueId) -> Result<View> {
        let [key, counter] = [self.without_reversed_axes(node.inputs[0])?, self.without_reversed_axes(node.inputs[1])?];
        let shape = self.shape_of(value)?;
        let to = self.target(value, &shape, level_of(&[key.clone(), counter.clone()]));
        let keys: usize = key.shape[..key.shape.len() - 1].iter().product();
        if to.is_empty() {
            return Ok(to);
        }
        let lanes = to.len() / keys;
        let [key, counter] = [key, counter].map(|pairs| self.pairs(&pairs, keys));
        let (key, counter) = (key?, counter?);
        let place = to.reshaped(&[keys, lanes]).filter(|place| lanes == 1 || place.strides[1] == 1);
        let matrix = match &place {
            Some(place) => place.clone(),
            None => self.planner.emitter.reserve(&[keys, lanes], to.level),
        };
        self.planner.emitter.threefry(op.words, &matrix, [&key, &counter])?;
        if place.is_none() {
            let made =
                matrix.reshaped(&shape).ok_or_else(|| Declined::new(op.name(), "its result is not contiguous"))?;
            self.planner.emitter.copy(&to, &made)?;
        }
        Ok(to)
    }

    /// Returns a tensor of words as `count` pairs, each of them contiguous.
    fn pairs(&mut self, words: &View, count: usize) -> Result<View> {
        match words.reshaped(&[count, 2]).filter(|pairs| pairs.strides[1] == 1) {
            Some(pairs) => Ok(pairs),
            None => {
                let copy = self.planner.emitter.copied(words)?;
                copy.reshaped(&[count, 2]).ok_or_else(|| Declined::new("threefry", "keys that are not contiguous"))
            }
        }
    }
}
