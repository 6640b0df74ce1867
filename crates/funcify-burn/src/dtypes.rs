//! Maps dtypes between funcify and Burn.

use burn::backend::TensorMetadata;
use burn::tensor::{DType as BurnDType, FloatDType, IntDType};
use funcify_core::DType;
use funcify_core::error::BackendError;

use crate::kinds::Tensor;

/// Returns Burn's integer type for an integer dtype.
pub(crate) fn integer(dtype: DType) -> Result<IntDType, BackendError> {
    match dtype {
        DType::U8 => Ok(IntDType::U8),
        DType::U32 => Ok(IntDType::U32),
        DType::I32 => Ok(IntDType::I32),
        DType::I64 => Ok(IntDType::I64),
        other => Err(format!("{other} is not an integer type").into()),
    }
}

/// Returns Burn's float type for a float dtype.
pub(crate) fn float(dtype: DType) -> Result<FloatDType, BackendError> {
    match dtype {
        DType::F16 => Ok(FloatDType::F16),
        DType::BF16 => Ok(FloatDType::BF16),
        DType::F32 => Ok(FloatDType::F32),
        DType::F64 => Ok(FloatDType::F64),
        other => Err(format!("{other} is not a float type").into()),
    }
}

/// Returns the dtype of a tensor, or `None` if funcify does not support it.
pub(crate) fn of(tensor: &Tensor) -> Option<DType> {
    from_burn(tensor.dtype())
}

/// Returns the funcify dtype for a Burn dtype, or `None` if there is none.
pub(crate) fn from_burn(dtype: BurnDType) -> Option<DType> {
    match dtype {
        BurnDType::Bool(_) => Some(DType::Bool),
        BurnDType::U8 => Some(DType::U8),
        BurnDType::U32 => Some(DType::U32),
        BurnDType::I32 => Some(DType::I32),
        BurnDType::I64 => Some(DType::I64),
        BurnDType::F16 => Some(DType::F16),
        BurnDType::BF16 => Some(DType::BF16),
        BurnDType::F32 => Some(DType::F32),
        BurnDType::F64 => Some(DType::F64),
        _ => None,
    }
}
