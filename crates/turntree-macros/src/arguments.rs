//! Arguments that are read by `crate::convert::arguments`, which names the call, the argument and what it must be.
//!
//! `PyO3` reads an argument with a function that it is given by path (`from_py_with`), and that knows nothing but the
//! value. So each such parameter gets a function of its own, which passes on what the errors need. A parameter that is
//! any object is read by the function itself; the attribute adds the call to its errors.

use quote::{format_ident, quote_spanned};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;
use syn::{
    Attribute, Block, Expr, FnArg, GenericArgument, Ident, ItemFn, Pat, PathArguments, PathSegment,
    ReturnType, Signature, Type, parse_quote, parse_quote_spanned,
};

use crate::constructor::variable_parameters;

/// Marks the parameters that are values (texts, numbers, flags, paths, lists and dicts of them) or objects of one class
/// for `PyO3`, unless they say themselves how they are read. Returns the functions that read them, which belong into a
/// block of `owner`.
pub(crate) fn read_by_name(
    signature: &mut Signature,
    attributes: &[Attribute],
    owner: Option<&Type>,
) -> Vec<ItemFn> {
    let function = signature.ident.clone();
    let call = call_of(attributes, &function, owner);
    let takes_self = owner.is_some() && !["new", "staticmethod"].iter().any(|name| has(attributes, name));
    let variable = variable_parameters(attributes);
    let mut readers = Vec::new();
    for parameter in signature.inputs.iter_mut().skip(usize::from(takes_self)) {
        let FnArg::Typed(parameter) = parameter else { continue };
        let Pat::Ident(pattern) = &*parameter.pat else { continue };
        let name = pattern.ident.unraw().to_string();
        if has(&parameter.attrs, "pyo3") || variable.contains(&name) {
            continue;
        }
        let (expected, read, kind) = match (expected(&parameter.ty), object(&parameter.ty)) {
            (Some(expected), _) => (expected, format_ident!("read"), format_ident!("FromPyObject")),
            // A setter does not keep the object that a reader borrows.
            (None, Some(expected)) if !has(attributes, "setter") => {
                (expected, format_ident!("read_object"), format_ident!("FromObject"))
            }
            (None, _) => continue,
        };
        let span = parameter.ty.span();
        let reader =
            format_ident!("read_{}_of_{}", bare(&name), bare(&function.unraw().to_string()), span = span);
        readers.push(parse_quote_spanned! {span=>
            fn #reader<'a, 'py, T: crate::convert::arguments::#kind<'a, 'py>>(
                value: &'a Bound<'py, PyAny>,
            ) -> PyResult<T> {
                crate::convert::arguments::#read(value, &const { crate::convert::arguments::Argument {
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

/// Adds the call to the errors of a function about the arguments that it reads itself: those that are any object.
pub(crate) fn name_call(
    signature: &Signature,
    attributes: &[Attribute],
    block: &mut Block,
    owner: Option<&Type>,
) {
    let ReturnType::Type(_, returned) = &signature.output else { return };
    let names: Vec<String> = signature
        .inputs
        .iter()
        .filter_map(|input| match input {
            FnArg::Typed(parameter) if is_any(&parameter.ty) => match &*parameter.pat {
                Pat::Ident(pattern) => Some(pattern.ident.unraw().to_string()),
                _ => None,
            },
            _ => None,
        })
        .collect();
    let is_fallible = matches!(&**returned, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "PyResult"));
    if names.is_empty() || !is_fallible || signature.constness.is_some() {
        return;
    }
    let call = call_of(attributes, &signature.ident, owner);
    *block = parse_quote!({
        #[allow(clippy::redundant_closure_call, clippy::allow_attributes, reason = "`try` blocks are not stable")]
        let result = (move || -> #returned #block)();
        result.map_err(|error| crate::convert::arguments::with_call(error, &const { #call }, &[#(#names),*]))
    });
}

/// True for a type that takes any Python object.
fn is_any(ty: &Type) -> bool {
    match ty {
        Type::Group(group) => is_any(&group.elem),
        Type::Reference(reference) => is_any(&reference.elem),
        Type::Path(path) => path.path.segments.last().is_some_and(|last| {
            last.ident == "PyAny"
                || (["Option", "Bound", "Py"].iter().any(|name| last.ident == name)
                    && type_arguments(last).any(is_any))
        }),
        _ => false,
    }
}

fn has(attributes: &[Attribute], name: &str) -> bool {
    attributes.iter().any(|attribute| attribute.path().is_ident(name))
}

/// How an error names the function: a method, a class that is called, or an attribute.
fn call_of(attributes: &[Attribute], function: &Ident, owner: Option<&Type>) -> Expr {
    let name = function.unraw().to_string();
    let kind: Expr = if has(attributes, "setter") {
        parse_quote!(crate::convert::arguments::Called::Attribute)
    } else if has(attributes, "new") || (name.starts_with("__") && name.ends_with("__")) {
        parse_quote!(crate::convert::arguments::Called::Class)
    } else {
        parse_quote!(crate::convert::arguments::Called::Function(#name))
    };
    let class: Expr = owner.map_or_else(
        || parse_quote!(::core::option::Option::None),
        |owner| parse_quote!(::core::option::Option::Some(crate::convert::arguments::class_name::<#owner>())),
    );
    parse_quote!(crate::convert::arguments::Call { class: #class, called: #kind })
}

/// What a reference to an object must be, in Python; `None` for references to any object.
fn object(ty: &Type) -> Option<Expr> {
    match ty {
        Type::Group(group) => object(&group.elem),
        Type::Reference(reference) => match &*reference.elem {
            Type::Path(path) if path.path.segments.last()?.ident == "Bound" => {
                instance(type_arguments(path.path.segments.last()?).next()?)
            }
            _ => None,
        },
        Type::Path(path) if path.path.segments.last()?.ident == "Option" => {
            let value = object(type_arguments(path.path.segments.last()?).next()?)?;
            Some(parse_quote!(crate::convert::arguments::Expected::Optional(&#value)))
        }
        _ => None,
    }
}

/// What an object of this class must be, in Python.
fn instance(class: &Type) -> Option<Expr> {
    let Type::Path(path) = class else { return None };
    let name = path.path.segments.last()?.ident.to_string();
    let fits: Expr = parse_quote!(crate::convert::arguments::is_instance::<#class>);
    match name.as_str() {
        "PyAny" | "PyModule" | "PyType" | "PyBaseException" | "PyCapsule" | "PyIterator" => None,
        "PyDict" | "PyList" | "PyTuple" | "PyMapping" | "PySequence" => {
            let word = name.trim_start_matches("Py").to_lowercase();
            Some(parse_quote!(crate::convert::arguments::Expected::Builtin { name: #word, fits: #fits }))
        }
        "PyString" => Some(kind("Text")),
        "PyBytes" => Some(kind("Bytes")),
        _ => Some(parse_quote!(crate::convert::arguments::Expected::Instance {
            name: crate::convert::arguments::class_name::<#class>,
            fits: #fits,
        })),
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
        "Py" | "PyRef" | "Bound" => return instance(type_arguments(last).next()?),
        "Vec" => {
            let item = of(0).unwrap_or_else(|| kind("Any"));
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
