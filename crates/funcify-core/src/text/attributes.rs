//! Parses attributes: `{axis=0, axes=[1,2], mode=add}`.

use crate::error::Result;
use crate::ops::{Attribute, Attributes};
use crate::types::grammar::{dim, dims};
use crate::types::lexer::{Cursor, error_at};

/// Parses attributes in braces, such as `{axis=0, start=[1,T]}`. Returns no attributes if the next token is not an
/// opening brace.
pub(super) fn attributes(cursor: &mut Cursor) -> Result<Attributes> {
    let mut attributes = Attributes::new();
    if !cursor.take_mark('{') {
        return Ok(attributes);
    }
    cursor.list('}', "`,` or `}` after an attribute", |cursor| {
        let site = cursor.site();
        let key = cursor.expect_name("an attribute such as `axis=0`")?;
        if attributes.iter().any(|(other, _)| other == key) {
            return Err(error_at(site, format!("the attribute `{key}` once"), "a second one"));
        }
        cursor.expect_mark('=')?;
        let value = if cursor.take_mark('[') { Attribute::List(dims(cursor)?) } else { Attribute::Dim(dim(cursor)?) };
        attributes.push(key, value);
        Ok(())
    })?;
    Ok(attributes)
}
