//! Rejects nodes with invalid dimensions when they are added, so later passes never encounter an invalid dimension.

use super::*;

/// The suggested fix for a dimension that does not fit in 64 bits.
const FIX: &str = "use smaller numbers: sizes are 64-bit integers";

impl Attribute {
    /// Returns the dimensions in the attribute.
    pub(crate) fn dims(&self) -> &[Dim] {
        match self {
            Attribute::Dim(dim) => std::slice::from_ref(dim),
            Attribute::List(dims) => dims,
        }
    }
}

/// Rejects an op with an attribute or a number of steps that does not fit in 64 bits. Negative attributes are allowed.
pub(super) fn check_attributes(op: &Op, at: &Place) -> Result<()> {
    let beyond = |component: &str| {
        Err(at.mismatch(component, "a dimension that fits in 64 bits", "a sum or product that overflows", FIX))
    };
    if let Some((name, _)) = op.sizes().dim.filter(|(_, dim)| dim.is_beyond_range()) {
        return beyond(name);
    }
    for (name, attribute) in op.attributes().iter() {
        if attribute.dims().iter().any(Dim::is_beyond_range) {
            return beyond(&format!("attribute `{name}`"));
        }
    }
    Ok(())
}

/// Rejects types with a dimension that is always negative or does not fit in 64 bits.
pub(super) fn check_types(types: &[TensorType], at: &Place) -> Result<()> {
    types.iter().try_for_each(|ty| check_type("a result", ty, at))
}

/// Rejects a type with a dimension that is always negative or does not fit in 64 bits.
pub(super) fn check_type(component: &str, ty: &TensorType, at: &Place) -> Result<(), Error> {
    match ty.shape.first_unusable_dim() {
        None => Ok(()),
        Some(dim) if dim.is_beyond_range() => Err(at.mismatch(component, "sizes that fit in 64 bits", ty, FIX)),
        Some(_) => Err(at.mismatch(component, "sizes that are 0 or more", ty, "use sizes that are 0 or more")),
    }
}
