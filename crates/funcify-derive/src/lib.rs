//! The derive macro for funcify's `Tree` trait.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, Index, parse_macro_input, parse_quote};

/// Implements `Tree` for a struct. The leaves of the struct are the leaves of its fields. The path of each leaf begins
/// with the name of the field or, in a tuple struct, with the field's index.
///
/// Every type parameter must implement `Tree`. Enums and unions are rejected, because the structure of a program must
/// not depend on values.
#[proc_macro_derive(Tree)]
pub fn derive_tree(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    tree(input).unwrap_or_else(Error::into_compile_error).into()
}

fn tree(mut input: DeriveInput) -> Result<TokenStream, Error> {
    let fields = match input.data {
        Data::Struct(data) => data.fields,
        Data::Enum(data) => return Err(refused(data.enum_token.span, "an enum")),
        Data::Union(data) => return Err(refused(data.union_token.span, "a union")),
    };
    for parameter in input.generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(::funcify::Tree));
    }
    let name = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    let (visits, rebuilt) = match &fields {
        Fields::Named(fields) => {
            let names: Vec<_> = fields.named.iter().filter_map(|field| field.ident.as_ref()).collect();
            let keys: Vec<String> = names.iter().map(|name| name.to_string().trim_start_matches("r#").into()).collect();
            let visits = quote! { #(::funcify::Tree::visit(&self.#names, &path.key(#keys), visit);)* };
            (visits, quote! { #name { #(#names: ::funcify::Tree::rebuild(&self.#names, next)),* } })
        }
        Fields::Unnamed(fields) => {
            let numbers: Vec<Index> = (0..fields.unnamed.len()).map(Index::from).collect();
            let visits = quote! { #(::funcify::Tree::visit(&self.#numbers, &path.index(#numbers), visit);)* };
            (visits, quote! { #name(#(::funcify::Tree::rebuild(&self.#numbers, next)),*) })
        }
        Fields::Unit => (quote!(), quote!(#name)),
    };
    // If the struct has no fields, avoid compiler warnings about unused arguments.
    let visits = if fields.is_empty() { quote!(let _ = (path, visit);) } else { visits };
    let ignored = fields.is_empty().then(|| quote!(let _ = next;));
    Ok(quote! {
        impl #impl_generics ::funcify::Tree for #name #type_generics #where_clause {
            fn visit(
                &self,
                path: &::funcify::tree::Path<'_>,
                visit: &mut dyn ::core::ops::FnMut(&::funcify::tree::Path<'_>, ::funcify::Value),
            ) {
                #visits
            }

            fn rebuild(&self, next: &mut dyn ::core::ops::FnMut() -> ::funcify::Value) -> Self {
                #ignored
                #rebuilt
            }
        }
    })
}

fn refused(span: proc_macro2::Span, what: &str) -> Error {
    let message = format!(
        "`Tree` cannot be derived for {what}: the structure of a program does not depend on values; use a struct, \
         or `Option` for a part that may be absent"
    );
    Error::new(span, message)
}

#[cfg(test)]
mod tests {
    use super::tree;
    use syn::{DeriveInput, parse_str};

    fn expand(text: &str) -> Result<String, String> {
        let input: DeriveInput = parse_str(text).unwrap();
        tree(input).map(|tokens| tokens.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn structs_become_trees() {
        let code = expand("struct Pair<T> { a: T, r#type: Value }").unwrap();
        assert!(code.contains("impl < T : :: funcify :: Tree >"), "{code}");
        assert!(code.contains("path . key (\"type\")"), "{code}");
        assert!(expand("struct Pair(Value, Value);").unwrap().contains("path . index (1)"));
        assert!(expand("struct Unit;").is_ok());
    }

    #[test]
    fn enums_and_unions_are_refused() {
        assert!(expand("enum E { A }").unwrap_err().contains("cannot be derived for an enum"));
        assert!(expand("union U { a: u8 }").unwrap_err().contains("cannot be derived for a union"));
    }
}
