//! Maps the op names of other APIs (funcify's Rust functions, NumPy, JAX, PyTorch and StableHLO) to the text form. The
//! error for such a name suggests the equivalent.

/// Returns the text form of the op that another API calls `name`, or `None` if the name is unknown.
pub(super) fn equivalent_of(name: &str) -> Option<String> {
    let name = name.to_lowercase();
    let bare = name.strip_prefix("reduce_").unwrap_or(&name);
    let kind = match bare {
        "sum" | "prod" | "any" | "all" => Some(bare),
        "max" | "min" if bare.len() < name.len() => Some(bare),
        "amax" => Some("max"),
        "amin" => Some("min"),
        _ => None,
    };
    if let Some(kind) = kind {
        return Some(format!("reduce %x {{kind={kind}, axes=[0]}}"));
    }
    if let Some(kind @ ("sum" | "prod" | "max" | "min")) = name.strip_prefix("cum") {
        return Some(format!("cumulative %x {{kind={kind}, axis=0, direction=forward}}"));
    }
    SYNONYMS.iter().find(|(names, _)| names.contains(&name.as_str())).map(|(_, written)| (*written).to_string())
}

/// Names of ops in other APIs, and their equivalents in the text form.
const SYNONYMS: &[(&[&str], &str)] = &[
    (&["dot", "mm", "bmm", "dot_general", "einsum"], "matmul %x, %y"),
    (&["maximum"], "max %x, %y"),
    (&["minimum"], "min %x, %y"),
    (&["multiply", "times"], "mul %x, %y"),
    (&["subtract", "minus"], "sub %x, %y"),
    (&["divide", "true_divide"], "div %x, %y"),
    (&["plus"], "add %x, %y"),
    (&["power"], "pow %x, %y"),
    (&["remainder", "mod", "fmod"], "rem %x, %y"),
    (&["negative", "negate"], "neg %x"),
    (&["ln"], "log %x"),
    (&["logistic"], "sigmoid %x"),
    (&["reciprocal"], "recip %x"),
    (&["where", "if_else"], "select %p, %x, %y"),
    (&["cat", "concatenate", "stack"], "concat %x, %y {axis=0}"),
    (&["permute", "swapaxes", "move_axis", "moveaxis"], "transpose %x {axes=[1,0]}"),
    (&["squeeze", "unsqueeze", "expand_dims", "flatten", "view"], "reshape %x {shape=[N]}"),
    (&["expand", "broadcast_to", "broadcast_in_dim"], "broadcast %x {shape=[N]}"),
    (&["flip", "rev"], "reverse %x {axis=0}"),
    (&["arange", "range"], "iota {size=N, dtype=i64}"),
    (&["convert", "astype", "convert_element_type"], "cast %x {dtype=f32}"),
    (&["bitcast_convert", "bitcast_convert_type"], "bitcast %x {dtype=i32}"),
    (&["index_select", "embedding"], "take %x, %i {axis=0}"),
    (&["argsort", "top_k", "topk"], "sort %x {axis=0, order=descending}"),
    (&["equal"], "eq %x, %y"),
    (&["not_equal"], "ne %x, %y"),
    (&["less"], "lt %x, %y"),
    (&["less_equal"], "le %x, %y"),
    (&["greater"], "gt %x, %y"),
    (&["greater_equal"], "ge %x, %y"),
    (&["logical_and", "bitwise_and"], "and %x, %y"),
    (&["logical_or", "bitwise_or"], "or %x, %y"),
    (&["logical_xor", "bitwise_xor"], "xor %x, %y"),
    (&["logical_not", "bitwise_not"], "not %x"),
    (&["const", "full", "zeros", "ones"], "constant 0.0"),
    (&["detach"], "stop_gradient %x"),
    (&["cond", "if"], "switch %p {"),
    (&["while_loop"], "while %x {"),
    (&["for", "fori_loop", "loop"], "scan @step {steps=T} {"),
];

#[cfg(test)]
mod tests {
    use super::{SYNONYMS, equivalent_of};
    use crate::ops::all_names;
    use crate::text::parse_op_text;

    /// Checks that each suggestion parses, and that no synonym is itself the name of an op.
    #[test]
    fn each_answer_is_an_op() {
        let names = all_names();
        let elsewhere = SYNONYMS.iter().flat_map(|(names, _)| names.iter().copied());
        let others = ["sum", "reduce_sum", "reduce_max", "amin", "any", "cumsum", "cummax"];
        for name in elsewhere.chain(others) {
            assert!(!names.contains(&name), "`{name}` is an op");
            let written = equivalent_of(name).unwrap();
            let op = written.split_whitespace().next().unwrap();
            assert!(names.contains(&op), "`{written}` for `{name}`");
            if written.ends_with('}') {
                let attributes = written.find('{').map_or("", |start| &written[start..]);
                assert!(parse_op_text(&format!("{op} {attributes}")).is_ok(), "`{written}` for `{name}`");
            }
        }
        assert_eq!(equivalent_of("max"), None);
        assert_eq!(equivalent_of("softmax"), None);
    }
}
