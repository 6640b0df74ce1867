//! Element types.

use std::fmt;

/// The type of a tensor's elements.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::DType;
///
/// assert_eq!((DType::BF16.name(), DType::BF16.size()), ("bf16", 2));
/// assert_eq!(DType::from_name("u8"), Some(DType::U8));
/// assert!(DType::BF16.is_float() && DType::U8.is_unsigned());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum DType {
    /// `true` or `false`.
    Bool,
    /// Unsigned 8-bit integer; arithmetic wraps.
    U8,
    /// Unsigned 32-bit integer; arithmetic wraps.
    U32,
    /// Signed 32-bit integer, two's complement; arithmetic wraps.
    I32,
    /// Signed 64-bit integer, two's complement; arithmetic wraps.
    I64,
    /// IEEE 754 binary16.
    F16,
    /// bfloat16: the upper half of a binary32.
    BF16,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
}

impl DType {
    /// All element types: `bool`, integers, floats, each group from narrow to wide.
    pub const ALL: [DType; 9] =
        [DType::Bool, DType::U8, DType::U32, DType::I32, DType::I64, DType::F16, DType::BF16, DType::F32, DType::F64];

    /// Returns its name in the text form: `f32`, `i64`, `bool`, ...
    pub fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::U8 => "u8",
            DType::U32 => "u32",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
        }
    }

    /// Returns the element type with this name, if it exists.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Returns whether this is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
    }

    /// Returns whether this is an integer type (`bool` is not).
    pub fn is_int(self) -> bool {
        matches!(self, DType::U8 | DType::U32 | DType::I32 | DType::I64)
    }

    /// Returns whether this is an unsigned integer type.
    pub fn is_unsigned(self) -> bool {
        matches!(self, DType::U8 | DType::U32)
    }

    /// Returns the number of bytes that one element takes in host memory.
    pub fn size(self) -> usize {
        match self {
            DType::Bool | DType::U8 => 1,
            DType::F16 | DType::BF16 => 2,
            DType::U32 | DType::I32 | DType::F32 => 4,
            DType::I64 | DType::F64 => 8,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
