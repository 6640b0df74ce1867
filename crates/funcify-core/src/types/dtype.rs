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
    /// Boolean.
    Bool,
    /// Unsigned 8-bit integer with wrapping arithmetic.
    U8,
    /// Unsigned 32-bit integer with wrapping arithmetic.
    U32,
    /// Signed 32-bit integer (two's complement) with wrapping arithmetic.
    I32,
    /// Signed 64-bit integer (two's complement) with wrapping arithmetic.
    I64,
    /// IEEE 754 binary16.
    F16,
    /// bfloat16: the upper 16 bits of a binary32.
    BF16,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
}

impl DType {
    /// All element types: `bool`, the integers from narrow to wide, and the floats from narrow to wide.
    pub const ALL: [DType; 9] =
        [DType::Bool, DType::U8, DType::U32, DType::I32, DType::I64, DType::F16, DType::BF16, DType::F32, DType::F64];

    /// Returns the name of the type in the text form, such as `f32`, `i64` or `bool`.
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

    /// Returns the element type with this name, or `None` if the name is unknown.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Returns `true` for floating-point types.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
    }

    /// Returns `true` for integer types. `bool` is not an integer type.
    pub fn is_int(self) -> bool {
        matches!(self, DType::U8 | DType::U32 | DType::I32 | DType::I64)
    }

    /// Returns `true` for unsigned integer types.
    pub fn is_unsigned(self) -> bool {
        matches!(self, DType::U8 | DType::U32)
    }

    /// Returns the size of an element in host memory, in bytes.
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
