//! The intermediate representation of a body: typed straight-line code.

use smallvec::SmallVec;

use crate::kernels::{Binary, Ternary, Unary};

/// The type of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Type {
    /// The float type of the program, `f32` or `f64`.
    Float,
    /// A signed 64-bit integer.
    I64,
    /// A signed 32-bit integer.
    I32,
    /// An unsigned 32-bit integer.
    U32,
    /// An unsigned 8-bit integer.
    U8,
    /// A boolean. In memory, it is a byte that is 0 or 1.
    Mask,
}

impl Type {
    /// Returns the size of an element in bytes. `float` is the size of a float of the program.
    #[inline]
    pub fn size(self, float: usize) -> usize {
        match self {
            Type::Float => float,
            Type::I64 => 8,
            Type::I32 | Type::U32 => 4,
            Type::U8 | Type::Mask => 1,
        }
    }
}

/// A value of a body: its index in the list of values.
pub type Value = usize;

/// An op of a body. Unless noted otherwise, the operands and the result have the same type.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Op {
    /// A float constant.
    Number(f64),
    /// An integer constant, or a constant mask (0 or 1).
    Integer(i64),
    /// The current lane's element of the stream with this index.
    Load(usize),
    /// A function of a float.
    Unary(Unary),
    /// A function of two floats. Comparisons are [`Op::Compare`].
    Binary(Binary),
    /// A function of three floats. Selection is [`Op::Select`].
    Ternary(Ternary),
    /// A function of an integer or a mask.
    OneInt(IntUnary),
    /// A function of two integers, or of two masks.
    Int(IntBinary),
    /// A comparison of two values of the same type. The result is a mask.
    Compare(Compare),
    /// The second operand where the first operand, a mask, is `true`, and the third operand elsewhere.
    Select,
    /// The operand converted to the type of the result. Conversions from floats to integers truncate toward zero and
    /// saturate; NaN becomes 0. Conversions between integer types wrap. Conversions to masks yield `true` unless the
    /// number is 0.
    Cast,
    /// The operand converted to the type of the result. The conversion must be exact. Either the operand is a float
    /// that holds an integer or a mask, or the operand is an integer or a mask and the result is a float.
    Hold,
}

/// A function of one integer, which wraps on overflow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IntUnary {
    /// `-x`.
    Neg,
    /// `|x|`. The smallest integer is unchanged.
    Abs,
    /// The sign of `x`: -1, 0 or 1.
    Sign,
    /// `x * x`.
    Square,
    /// `x` with all bits inverted, or the negation of a mask.
    Not,
    /// The number of one bits.
    Popcount,
    /// The number of leading zero bits.
    LeadingZeros,
}

impl IntUnary {
    /// All functions.
    pub const ALL: [IntUnary; 7] = [
        IntUnary::Neg,
        IntUnary::Abs,
        IntUnary::Sign,
        IntUnary::Square,
        IntUnary::Not,
        IntUnary::Popcount,
        IntUnary::LeadingZeros,
    ];
}

/// A function of two integers, which wraps on overflow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IntBinary {
    /// `x + y`.
    Add,
    /// `x - y`.
    Sub,
    /// `x * y`.
    Mul,
    /// `x / y`, truncated toward zero. Division by zero returns an integer whose bits are all ones.
    Div,
    /// The remainder of `x / y`, with the sign of `x`. If `y` is 0, this is `x`.
    Rem,
    /// The larger integer.
    Max,
    /// The smaller integer.
    Min,
    /// `x` to the power `y`. If `y` is negative, the result is 0 unless `x` is 1 or -1.
    Pow,
    /// `x & y`.
    And,
    /// `x | y`.
    Or,
    /// `x ^ y`.
    Xor,
    /// `x` shifted left by `y` bits. All bits are shifted out if `y` is negative or at least the number of bits.
    ShiftLeft,
    /// `x` shifted right by `y` bits, filling with copies of the highest bit.
    ShiftRightArithmetic,
    /// `x` shifted right by `y` bits, filling with zeros.
    ShiftRightLogical,
}

impl IntBinary {
    /// All functions.
    pub const ALL: [IntBinary; 14] = [
        IntBinary::Add,
        IntBinary::Sub,
        IntBinary::Mul,
        IntBinary::Div,
        IntBinary::Rem,
        IntBinary::Max,
        IntBinary::Min,
        IntBinary::Pow,
        IntBinary::And,
        IntBinary::Or,
        IntBinary::Xor,
        IntBinary::ShiftLeft,
        IntBinary::ShiftRightArithmetic,
        IntBinary::ShiftRightLogical,
    ];
}

/// A comparison. A comparison with NaN is false, except for [`NotEqual`](Compare::NotEqual).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compare {
    /// `x == y`.
    Equal,
    /// `x != y`.
    NotEqual,
    /// `x < y`.
    Less,
    /// `x <= y`.
    LessEqual,
}

impl Compare {
    /// All comparisons.
    pub const ALL: [Compare; 4] = [Compare::Equal, Compare::NotEqual, Compare::Less, Compare::LessEqual];
}

/// A use of an op in a body: the op, the type of its result, and its operands.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    pub(crate) op: Op,
    pub(crate) ty: Type,
    pub(crate) from: SmallVec<[Value; 3]>,
}

impl Node {
    /// Returns the op.
    pub fn op(&self) -> Op {
        self.op
    }

    /// Returns the type of the result.
    pub fn ty(&self) -> Type {
        self.ty
    }

    /// Returns the operands.
    pub fn operands(&self) -> &[Value] {
        &self.from
    }
}

/// Typed straight-line code: each value depends only on streams and earlier values.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Body {
    nodes: Vec<Node>,
    stores: Vec<(Value, usize)>,
}

impl Body {
    /// Appends an op, and returns its result.
    pub fn push(&mut self, op: Op, ty: Type, from: &[Value]) -> Value {
        debug_assert!(from.iter().all(|value| *value < self.nodes.len()), "an op can use only earlier values");
        self.nodes.push(Node { op, ty, from: from.into() });
        self.nodes.len() - 1
    }

    /// Appends a load from a stream, and returns its result. If the body already loads this stream, returns the result
    /// of that load.
    pub fn load(&mut self, stream: usize, ty: Type) -> Value {
        match self.nodes.iter().position(|node| node.op == Op::Load(stream)) {
            Some(value) => value,
            None => self.push(Op::Load(stream), ty, &[]),
        }
    }

    /// Appends a float constant, and returns its value.
    pub fn number(&mut self, number: f64) -> Value {
        self.push(Op::Number(number), Type::Float, &[])
    }

    /// Appends a constant of an integer type, or a constant mask (0 or 1), and returns its value.
    pub fn integer(&mut self, number: i64, ty: Type) -> Value {
        self.push(Op::Integer(number), ty, &[])
    }

    /// Stores a value to a stream. All loads happen before all stores.
    pub fn store(&mut self, value: Value, stream: usize) {
        self.stores.push((value, stream));
    }

    /// Returns the node of each value, in order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the stored values, each with its stream.
    pub fn stores(&self) -> &[(Value, usize)] {
        &self.stores
    }
}
