//! The attributes `#[pymethods]` and `#[pyfunction]` of the extension module.
//!
//! They are `PyO3`'s, except that every parameter with text (`String`, `&str`, and types made of them) is read by
//! `crate::convert::text::argument`. A `str` of Python with a lone surrogate, which no text of Rust can have, is then
//! refused with the error of the package, and not with that of Python's codec. Constructors explain which arguments are
//! missing or unknown.

mod constructor;

use proc_macro::TokenStream;
use quote::quote;
use syn::parse::Nothing;
use syn::spanned::Spanned as _;
use syn::{FnArg, GenericArgument, ImplItem, ItemFn, ItemImpl, PathArguments, Signature, Type};
use syn::{parse_macro_input, parse_quote_spanned};

/// As `PyO3`'s `#[pymethods]`, with texts that `crate::convert::text::argument` reads, and constructors that explain
/// which arguments are missing or unknown.
#[proc_macro_attribute]
pub fn pymethods(arguments: TokenStream, item: TokenStream) -> TokenStream {
    parse_macro_input!(arguments as Nothing);
    let mut block = parse_macro_input!(item as ItemImpl);
    for item in &mut block.items {
        if let ImplItem::Fn(function) = item {
            read_texts(&mut function.sig);
        }
    }
    let is_constructor =
        |item: &ImplItem| matches!(item, ImplItem::Fn(function) if constructor::is_constructor(function));
    let place = block.items.iter().position(is_constructor);
    let plain = place.and_then(|place| constructor::explain(&mut block, place));
    quote!(#[crate::prelude::pyo3_pymethods] #block #plain).into()
}

/// As `PyO3`'s `#[pyfunction]`, with texts that `crate::convert::text::argument` reads.
#[proc_macro_attribute]
pub fn pyfunction(arguments: TokenStream, item: TokenStream) -> TokenStream {
    parse_macro_input!(arguments as Nothing);
    let mut function = parse_macro_input!(item as ItemFn);
    read_texts(&mut function.sig);
    quote!(#[crate::prelude::pyo3_pyfunction] #function).into()
}

/// Marks the parameters with text for `PyO3`, unless they say themselves how they are read.
fn read_texts(signature: &mut Signature) {
    for parameter in &mut signature.inputs {
        let FnArg::Typed(parameter) = parameter else { continue };
        let is_marked = parameter.attrs.iter().any(|attribute| attribute.path().is_ident("pyo3"));
        if !is_marked && has_text(&parameter.ty) {
            parameter.attrs.push(parse_quote_spanned! {parameter.ty.span()=>
                #[pyo3(from_py_with = crate::convert::text::argument)]
            });
        }
    }
}

/// True for `str`, `String` and types that contain them, as references, tuples and type arguments.
fn has_text(given: &Type) -> bool {
    let mut pending = vec![given];
    while let Some(next) = pending.pop() {
        match next {
            Type::Reference(reference) => pending.push(&reference.elem),
            // A type that a declarative macro has put in.
            Type::Group(group) => pending.push(&group.elem),
            Type::Tuple(tuple) => pending.extend(&tuple.elems),
            Type::Path(path) => {
                let Some(last) = path.path.segments.last() else { continue };
                if ["str", "String", "PathBuf"].iter().any(|text| last.ident == text) {
                    return true;
                }
                if let PathArguments::AngleBracketed(arguments) = &last.arguments {
                    pending.extend(arguments.args.iter().filter_map(|argument| match argument {
                        GenericArgument::Type(inner) => Some(inner),
                        _ => None,
                    }));
                }
            }
            _ => {}
        }
    }
    false
}
