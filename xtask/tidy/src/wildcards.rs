//! Checks that no pass applies a default to ops that it does not name. The wildcard arm of a `match` over ops, or a
//! `matches!` of several ops, would silently cover every op added later.
//!
//! Outside `ops/`, a match that names two or more ops must not have a wildcard arm that decides for all other ops.
//! Alternatives are to call a method of the op (`OpRules`), to match all classes of ops (`OpClass`), or to let the last
//! arm reject the op or fall back to code that handles every op. Rewrites are exempt: they may match a few ops and
//! ignore all others.

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Arm, Expr, ExprMatch, Pat, Path};

/// The enums whose variants are ops or classes of ops.
const ENUMS: [&str; 11] = [
    "Op",
    "GraphOp",
    "OpClass",
    "Elementwise",
    "Movement",
    "Creation",
    "Indexing",
    "Along",
    "Product",
    "Control",
    "Ops",
];

/// Paths where `Op` is another enum: Burn's operations, or the instructions of a plan.
const OTHERS: [&str; 6] = [
    "crates/funcify-burn/src/capture/import/",
    "crates/funcify-cpu/src/body/",
    "crates/funcify-cpu/src/plan/",
    "crates/funcify-cpu/src/planner/recurrence.rs",
    "crates/funcify-cpu/src/proof/",
    "crates/funcify-cpu/src/run/",
];

/// The crates that contain passes over ops.
const CRATES: [&str; 9] = ["core", "rewrite", "runtime", "nn", "analysis", "cpu", "jit", "candle", "burn"];

/// Names that mark a wildcard arm as acceptable: the arm fails, declines (`None`), or adds or runs the op unchanged.
const NON_ANSWERING_NAMES: [&str; 15] = [
    "Err",
    "emit",
    "unreachable",
    "panic",
    "expect",
    "refused",
    "refuse",
    "not_steppable",
    "Declined",
    "decline",
    "unsupported",
    "lower_kernel",
    "no_form",
    "bail",
    "compute_op",
];

/// Returns a problem for each match that names several ops and applies a default to all others.
pub(crate) fn problems(name: &str, text: &str) -> Vec<String> {
    let is_pass = CRATES.iter().any(|of| name.starts_with(&format!("crates/funcify-{of}/src/")));
    let is_other =
        OTHERS.iter().any(|other| name.starts_with(other)) && name != "crates/funcify-cpu/src/proof/graph.rs";
    if !is_pass || is_other || name.starts_with("crates/funcify-core/src/ops/") || name.ends_with("tests.rs") {
        return Vec::new();
    }
    let Ok(file) = syn::parse_file(text) else { return vec!["it does not parse".into()] };
    let mut found = Lists { is_rewrite: name.starts_with("crates/funcify-rewrite/"), problems: Vec::new() };
    found.visit_file(&file);
    found.problems
}

struct Lists {
    is_rewrite: bool,
    problems: Vec<String>,
}

impl Lists {
    fn report(&mut self, line: usize, what: &str, ops: &[String]) {
        let ops = ops.join(", ");
        self.problems.push(format!(
            "line {line}: {what} names {ops} and answers for all other ops: ask the op (`OpRules`), or match all of `OpClass`"
        ));
    }
}

impl<'ast> Visit<'ast> for Lists {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let is_test = module.attrs.iter().any(|it| it.path().is_ident("cfg"));
        if !is_test {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_expr_match(&mut self, of: &'ast ExprMatch) {
        let mut ops = Ops::default();
        of.arms.iter().for_each(|arm| ops.visit_pat(&arm.pat));
        let last = of.arms.iter().find(|arm| is_wildcard(arm));
        if let Some(arm) = last.filter(|_| ops.0.len() > 1)
            && !is_failure(&arm.body)
            && !is_none(&arm.body)
            && (!self.is_rewrite || is_flag(&arm.body))
        {
            self.report(arm.span().start().line, "the match", &ops.0);
        }
        visit::visit_expr_match(self, of);
    }

    fn visit_macro(&mut self, of: &'ast syn::Macro) {
        if of.path.is_ident("matches") {
            let mut ops = Vec::new();
            collect_ops(of.tokens.clone(), &mut ops);
            if ops.len() > 1 {
                self.report(of.span().start().line, "`matches!`", &ops);
            }
        }
    }
}

/// A visitor that collects the names of the ops in a pattern.
#[derive(Default)]
struct Ops(Vec<String>);

impl<'ast> Visit<'ast> for Ops {
    fn visit_path(&mut self, path: &'ast Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if let [.., of, op] = &names[..]
            && ENUMS.contains(&of.as_str())
            && !self.0.contains(op)
        {
            self.0.push(op.clone());
        }
        visit::visit_path(self, path);
    }
}

/// Adds the names of the ops that occur in `tokens` to `ops`.
fn collect_ops(tokens: TokenStream, ops: &mut Vec<String>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => collect_ops(group.stream(), ops),
            TokenTree::Ident(of) if ENUMS.contains(&of.to_string().as_str()) => {
                if let Some(TokenTree::Ident(op)) = tokens.get(index + 3) {
                    let op = op.to_string();
                    if !ops.contains(&op) {
                        ops.push(op);
                    }
                }
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// Returns `true` if an arm matches every value.
fn is_wildcard(arm: &Arm) -> bool {
    let takes_all = |pat: &Pat| matches!(pat, Pat::Wild(_)) || matches!(pat, Pat::Ident(it) if it.subpat.is_none());
    let is_so = match &arm.pat {
        Pat::Tuple(tuple) => tuple.elems.iter().all(takes_all),
        pat => takes_all(pat),
    };
    is_so && arm.guard.is_none()
}

/// Returns `true` if an expression fails, or passes the op to code that handles every op.
fn is_failure(body: &Expr) -> bool {
    let mut words = Words::default();
    words.visit_expr(body);
    words.0.iter().any(|word| NON_ANSWERING_NAMES.contains(&word.as_str()))
}

/// Returns `true` if an expression is `None` or returns `None`.
fn is_none(body: &Expr) -> bool {
    match body {
        Expr::Path(path) => path.path.is_ident("None"),
        Expr::Return(it) => it.expr.as_deref().is_some_and(is_none),
        Expr::Block(block) => matches!(&block.block.stmts[..], [syn::Stmt::Expr(last, _)] if is_none(last)),
        _ => false,
    }
}

/// Returns `true` if an expression is a boolean literal.
fn is_flag(body: &Expr) -> bool {
    matches!(body, Expr::Lit(of) if matches!(of.lit, syn::Lit::Bool(_)))
}

/// A visitor that collects the names that occur in an expression.
#[derive(Default)]
struct Words(Vec<String>);

impl<'ast> Visit<'ast> for Words {
    fn visit_ident(&mut self, ident: &'ast proc_macro2::Ident) {
        self.0.push(ident.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::problems;

    fn of(file: &str, body: &str) -> Vec<String> {
        problems(&format!("crates/funcify-{file}"), &format!("fn f(op: &Op) -> bool {{ {body} }}"))
    }

    #[test]
    fn a_list_of_ops_that_answers_for_others_is_refused() {
        let list = "matches!(op, Op::Slice(_) | Op::Pad(_))";
        let found = of("runtime/src/whole.rs", list);
        assert!(found[0].starts_with("line 1: `matches!` names Slice, Pad and answers"), "{found:?}");
        assert_eq!(of("runtime/src/whole.rs", "match op { Op::Slice(_) | Op::Pad(_) => true, _ => false }").len(), 1);
        let named = "match op { Op::Slice(_) => true, Op::Pad(_) => true, op => run(op) }";
        assert_eq!(of("core/src/vmap/mod.rs", named).len(), 1);
        assert_eq!(of("rewrite/src/fold.rs", list).len(), 1);
    }

    #[test]
    fn what_names_one_op_or_all_or_fails_passes() {
        for body in [
            "matches!(op, Op::Slice(_))",
            "match op { Op::Slice(_) => true, _ => false }",
            "match op { Op::Slice(_) => Ok(true), Op::Pad(_) => Ok(false), _ => Err(refused()) }",
            "match op { Op::Slice(_) => Some(true), Op::Pad(_) => Some(false), _ => return None }",
            "match op.class() { OpClass::Movement(_) => true, OpClass::Control(_) => false }",
        ] {
            assert!(of("runtime/src/whole.rs", body).is_empty(), "{body}");
        }
        let list = "matches!(op, Op::Slice(_) | Op::Pad(_))";
        assert!(of("core/src/ops/mod.rs", list).is_empty());
        assert!(of("conformance/src/suite.rs", list).is_empty());
        assert!(of("cpu/src/run/step.rs", list).is_empty());
    }
}
