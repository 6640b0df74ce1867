//! Dimensions that are no size: a graph refuses them where an op would have them, so that nothing after it meets one.

use super::*;

/// How to mend a dimension beyond 64 bits.
const FIX: &str = "use smaller numbers: a size has 64 bits";

impl Attribute {
    /// The numbers, polynomials and words in it.
    pub(crate) fn dims(&self) -> &[Dim] {
        match self {
            Attribute::Dim(dim) => std::slice::from_ref(dim),
            Attribute::List(dims) => dims,
        }
    }
}

/// Refuses attributes beyond range. They may be negative.
pub(super) fn check_attributes(op: &Op, at: &Place) -> Result<()> {
    let beyond = |component: &str| {
        Err(at.mismatch(component, "a dimension whose numbers have 64 bits", "a sum or a product beyond that", FIX))
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

/// Refuses types with a dimension that is negative for all sizes, or beyond range.
pub(super) fn check_types(types: &[TensorType], at: &Place) -> Result<()> {
    types.iter().try_for_each(|ty| check_type("a result", ty, at))
}

/// Refuses a type with a dimension that is negative for all sizes, or beyond range.
pub(super) fn check_type(component: &str, ty: &TensorType, at: &Place) -> Result<(), Error> {
    match ty.shape.unusable() {
        None => Ok(()),
        Some(dim) if dim.is_beyond_range() => Err(at.mismatch(component, "sizes of 64 bits", ty, FIX)),
        Some(_) => Err(at.mismatch(component, "sizes that are 0 or more", ty, "use sizes that are 0 or more")),
    }
}
