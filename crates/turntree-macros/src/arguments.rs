//! Arguments that are read by `crate::convert::arguments`, which names the call, the argument and what it must be.
//!
//! `PyO3` reads an argument with a function that it is given by path (`from_py_with`), and that knows nothing but the
//! value. So each such parameter gets a function of its own, which passes on what the errors need.

use quote::{format_ident, quote_spanned};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;
use syn::{
    Attribute, Expr, FnArg, GenericArgument, Ident, ItemFn, Pat, PathArguments, PathSegment, Signature, Type,
    parse_quote, parse_quote_spanned,
};

/// Marks the parameters that are values (texts, numbers, flags, paths, and lists and dicts of them) for `PyO3`, unless
/// they say themselves how they are read. Returns the functions that read them, which belong into a block of `owner`.
pub(crate) fn read_by_name(
    signature: &mut Signature,
    attributes: &[Attribute],
    owner: Option<&Type>,
) -> Vec<ItemFn> {
    let function = signature.ident.clone();
    let call = call_name(attributes, &function);
    let class: Expr = owner.map_or_else(
        || parse_quote!(::core::option::Option::None),
        |owner| parse_quote!(::core::option::Option::Some(crate::convert::arguments::class_name::<#owner>())),
    );
    let mut readers = Vec::new();
    for parameter in &mut signature.inputs {
        let FnArg::Typed(parameter) = parameter else { continue };
        let Pat::Ident(pattern) = &*parameter.pat else { continue };
        if parameter.attrs.iter().any(|attribute| attribute.path().is_ident("pyo3")) {
            continue;
        }
        let Some(expected) = expected(&parameter.ty) else { continue };
        let span = parameter.ty.span();
        let name = pattern.ident.unraw().to_string();
        let reader =
            format_ident!("read_{}_of_{}", bare(&name), bare(&function.unraw().to_string()), span = span);
        readers.push(parse_quote_spanned! {span=>
            fn #reader<'a, 'py, T: FromPyObject<'a, 'py>>(value: &'a Bound<'py, PyAny>) -> PyResult<T> {
                crate::convert::arguments::read(value, &const { crate::convert::arguments::Argument {
                    class: #class,
                    call: #call,
                    name: #name,
                    expected: #expected,
                } })
            }
        });
        let path = owner
            .map_or_else(|| quote_spanned!(span=> #reader), |owner| quote_spanned!(span=> <#owner>::#reader));
        parameter.attrs.push(parse_quote_spanned! {span=> #[pyo3(from_py_with = #path)]});
    }
    readers
}

/// A name without the underscores around it, which names of Rust must not join.
fn bare(name: &str) -> &str {
    name.trim_matches('_')
}

/// How an error names the function: a method, a class that is called, or an attribute.
fn call_name(attributes: &[Attribute], function: &Ident) -> Expr {
    let is = |name: &str| attributes.iter().any(|attribute| attribute.path().is_ident(name));
    let name = function.unraw().to_string();
    if is("setter") {
        parse_quote!(crate::convert::arguments::Call::Attribute)
    } else if is("new") || (name.starts_with("__") && name.ends_with("__")) {
        parse_quote!(crate::convert::arguments::Call::Class)
    } else {
        parse_quote!(crate::convert::arguments::Call::Function(#name))
    }
}

/// What a value of this type must be, in Python; `None` for types that are not read here.
fn expected(ty: &Type) -> Option<Expr> {
    match ty {
        // A type that a declarative macro has put in.
        Type::Group(group) => expected(&group.elem),
        Type::Reference(reference) => match &*reference.elem {
            Type::Path(path) if path.path.is_ident("str") => Some(kind("Text")),
            Type::Slice(slice) if is_byte(&slice.elem) => Some(kind("Bytes")),
            _ => None,
        },
        Type::Tuple(tuple) => {
            let items = tuple.elems.iter().map(expected).collect::<Option<Vec<_>>>()?;
            Some(parse_quote!(crate::convert::arguments::Expected::Tuple(&[#(#items),*])))
        }
        Type::Path(path) => path.path.segments.last().and_then(kind_of_path),
        _ => None,
    }
}

fn kind(name: &str) -> Expr {
    let name = format_ident!("{name}");
    parse_quote!(crate::convert::arguments::Expected::#name)
}

fn kind_of_path(last: &PathSegment) -> Option<Expr> {
    let of = |position: usize| expected(type_arguments(last).nth(position)?);
    Some(match last.ident.to_string().as_str() {
        "String" => kind("Text"),
        "bool" => kind("Flag"),
        "f32" | "f64" => kind("Number"),
        "PathBuf" => kind("Path"),
        "u8" => integer(u8::MIN, u8::MAX),
        "u16" => integer(u16::MIN, u16::MAX),
        "u32" => integer(u32::MIN, u32::MAX),
        "u64" | "usize" => integer(u64::MIN, u64::MAX),
        "NonZeroUsize" => integer(1, u64::MAX),
        "i32" => integer(i32::MIN, i32::MAX),
        "i64" | "isize" => integer(i64::MIN, i64::MAX),
        "Vec" if type_arguments(last).next().is_some_and(is_byte) => kind("Bytes"),
        "Vec" => {
            let item = of(0)?;
            parse_quote!(crate::convert::arguments::Expected::List(&#item))
        }
        "Option" => {
            let value = of(0)?;
            parse_quote!(crate::convert::arguments::Expected::Optional(&#value))
        }
        "HashMap" | "BTreeMap" => {
            let (key, value) = (of(0)?, of(1)?);
            parse_quote!(crate::convert::arguments::Expected::Dict(&#key, &#value))
        }
        _ => return None,
    })
}

fn integer(least: impl Into<i128>, most: impl Into<i128>) -> Expr {
    let (least, most): (i128, i128) = (least.into(), most.into());
    parse_quote!(crate::convert::arguments::Expected::Integer { least: #least, most: #most })
}

fn is_byte(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.is_ident("u8"))
}

fn type_arguments(segment: &PathSegment) -> impl Iterator<Item = &Type> {
    let arguments = match &segment.arguments {
        PathArguments::AngleBracketed(arguments) => Some(arguments.args.iter()),
        _ => None,
    };
    arguments.into_iter().flatten().filter_map(|argument| match argument {
        GenericArgument::Type(inner) => Some(inner),
        _ => None,
    })
}
