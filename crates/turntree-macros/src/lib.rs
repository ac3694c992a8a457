//! The attributes `#[pymethods]` and `#[pyfunction]` of the extension module.
//!
//! They are `PyO3`'s, except that every parameter that is a value (a text, a number, a flag, a path, or a list or dict of
//! them) or an object of one class is read by `crate::convert::arguments`. Its errors name the call, the argument and what
//! it must be, and a `str` with a lone surrogate, which no text of Rust can have, is refused with the error of the package.
//! Errors of a function about the arguments that it reads itself name the call too. Constructors explain which arguments
//! are missing or unknown.

mod arguments;
mod constructor;

use proc_macro::TokenStream;
use quote::quote;
use syn::parse::Nothing;
use syn::{ImplItem, ItemFn, ItemImpl, parse_macro_input};

/// As `PyO3`'s `#[pymethods]`, with arguments that `crate::convert::arguments` reads, and constructors that explain which
/// arguments are missing or unknown.
#[proc_macro_attribute]
pub fn pymethods(arguments: TokenStream, item: TokenStream) -> TokenStream {
    parse_macro_input!(arguments as Nothing);
    let mut block = parse_macro_input!(item as ItemImpl);
    let class = block.self_ty.clone();
    let mut readers = Vec::new();
    for item in &mut block.items {
        if let ImplItem::Fn(function) = item {
            arguments::name_call(&function.sig, &function.attrs, &mut function.block, Some(&class));
            readers.extend(arguments::read_by_name(&mut function.sig, &function.attrs, Some(&class)));
        }
    }
    let is_constructor =
        |item: &ImplItem| matches!(item, ImplItem::Fn(function) if constructor::is_constructor(function));
    let place = block.items.iter().position(is_constructor);
    let plain = place.and_then(|place| constructor::explain(&mut block, place));
    let generics = &block.generics;
    let readers = (!readers.is_empty()).then(|| quote!(impl #generics #class { #(#readers)* }));
    quote!(#[crate::prelude::pyo3_pymethods] #block #plain #readers).into()
}

/// As `PyO3`'s `#[pyfunction]`, with arguments that `crate::convert::arguments` reads.
#[proc_macro_attribute]
pub fn pyfunction(arguments: TokenStream, item: TokenStream) -> TokenStream {
    parse_macro_input!(arguments as Nothing);
    let mut function = parse_macro_input!(item as ItemFn);
    arguments::name_call(&function.sig, &function.attrs, &mut function.block, None);
    let readers = arguments::read_by_name(&mut function.sig, &function.attrs, None);
    quote!(#[crate::prelude::pyo3_pyfunction] #function #(#readers)*).into()
}
