//! Constructors that explain which arguments are missing, unknown or too many.
//!
//! `PyO3` answers a call without a required argument with `Audio.__new__() missing 1 required positional argument`. Here
//! each required parameter becomes one that may be absent (`crate::error::Given`), and `crate::error::missing_arguments`
//! makes the exception: which arguments the class needs, and the call to write. Arguments that the class does not take
//! are collected, and `crate::error::refuse_arguments` says what it takes.

use quote::{ToTokens, quote};
use syn::ext::IdentExt as _;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Expr, ExprLit, FnArg, Ident, ImplItemFn, ItemImpl, Lit, LitStr, Pat, ReturnType, Token, Type,
    parenthesized, parse_quote,
};

/// Replaces the constructor of a block of methods, and returns the block that has the function as it was written.
pub(crate) fn explain(block: &mut ItemImpl, constructor: usize) -> Option<ItemImpl> {
    let syn::ImplItem::Fn(written) = block.items.get(constructor)? else { return None };
    let (parameters, text) = parameters_of(written)?;
    let mut required: Vec<&Parameter> =
        parameters.iter().filter(|parameter| parameter.is_required()).collect();
    if required.iter().any(|parameter| parameter.is_optional_type(written)) {
        required.clear();
    }
    let takes_any = parameters.iter().any(Parameter::is_variable);
    if parameters.is_empty() || (takes_any && required.is_empty()) {
        return None;
    }
    let text = text.unwrap_or_else(|| text_signature(&parameters));
    let explained = explained(written, &parameters, &required, &text)?;
    let mut plain = written.clone();
    plain.attrs.retain(|attribute| !is_named(attribute, "new") && !is_named(attribute, "pyo3"));
    for input in &mut plain.sig.inputs {
        if let FnArg::Typed(input) = input {
            input.attrs.retain(|attribute| !is_named(attribute, "pyo3"));
        }
    }
    let (generics, class) = (&block.generics, &block.self_ty);
    let plain = parse_quote!(impl #generics #class { #plain });
    *block.items.get_mut(constructor)? = syn::ImplItem::Fn(explained);
    Some(plain)
}

/// True for a function with `#[new]`.
pub(crate) fn is_constructor(function: &ImplItemFn) -> bool {
    function.attrs.iter().any(|attribute| is_named(attribute, "new"))
        && !function.attrs.iter().any(|attribute| is_named(attribute, "classmethod"))
}

fn is_named(attribute: &Attribute, name: &str) -> bool {
    attribute.path().is_ident(name)
}

/// One item of a signature: a parameter, or `*` and `/`.
struct Parameter {
    stars: String,
    name: Option<Ident>,
    default: Option<Expr>,
    is_keyword: bool,
}

impl Parameter {
    fn is_required(&self) -> bool {
        self.stars.is_empty() && self.name.is_some() && self.default.is_none()
    }

    /// True for a parameter that takes any number of arguments.
    fn is_variable(&self) -> bool {
        self.stars.starts_with('*') && self.name.is_some()
    }

    /// True if `None` is a value of the parameter.
    fn is_optional_type(&self, written: &ImplItemFn) -> bool {
        let ty = self.name.as_ref().and_then(|name| type_of(written, name));
        ty.is_none_or(|ty| last_segment(ty).is_some_and(|segment| segment == "Option"))
    }

    /// As `PyO3` writes it into `__text_signature__`.
    fn text(&self) -> String {
        let name = self.name.as_ref().map(|name| name.unraw().to_string()).unwrap_or_default();
        let default = self.default.as_ref().map(|value| format!("={}", python_of(value))).unwrap_or_default();
        format!("{}{name}{default}", self.stars)
    }

    /// As the attribute of `PyO3` has it.
    fn tokens(&self, may_be_absent: bool) -> impl ToTokens {
        let name = &self.name;
        match (self.stars.as_str(), &self.default) {
            ("*", _) if self.name.is_none() => quote!(*more_arguments),
            ("*", _) => quote!(* #name),
            ("**", _) => quote!(** #name),
            ("/", _) => quote!(/),
            (_, Some(default)) => quote!(#name = #default),
            (_, None) if may_be_absent => quote!(#name = crate::error::Given(None)),
            (_, None) => quote!(#name),
        }
    }
}

impl Parse for Parameter {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut stars = String::new();
        while input.peek(Token![*]) || input.peek(Token![/]) {
            stars.push(if input.parse::<Option<Token![*]>>()?.is_some() {
                '*'
            } else {
                input.parse::<Token![/]>()?;
                '/'
            });
        }
        let name = if input.peek(Ident::peek_any) { Some(input.call(Ident::parse_any)?) } else { None };
        let default = input.parse::<Option<Token![=]>>()?.map(|_| input.parse()).transpose()?;
        Ok(Self { stars, name, default, is_keyword: false })
    }
}

/// An option of `#[pyo3(…)]`.
enum PyO3Option {
    Signature(Vec<Parameter>),
    Text(String),
    Other,
}

impl Parse for PyO3Option {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = input.call(Ident::parse_any)?;
        input.parse::<Token![=]>()?;
        if name == "text_signature" {
            return Ok(Self::Text(input.parse::<LitStr>()?.value()));
        }
        if name != "signature" {
            input.parse::<Expr>()?;
            return Ok(Self::Other);
        }
        let content;
        parenthesized!(content in input);
        let items = Punctuated::<Parameter, Token![,]>::parse_terminated(&content)?;
        let mut items: Vec<Parameter> = items.into_iter().collect();
        let mut is_keyword = false;
        for item in &mut items {
            item.is_keyword = is_keyword;
            is_keyword |= item.stars == "*";
        }
        Ok(Self::Signature(items))
    }
}

/// The names of the parameters that collect arguments: `*name` and `**name`.
pub(crate) fn variable_parameters(attributes: &[Attribute]) -> Vec<String> {
    let options = attributes.iter().filter(|attribute| is_named(attribute, "pyo3"));
    let options = options.filter_map(|attribute| {
        attribute.parse_args_with(Punctuated::<PyO3Option, Token![,]>::parse_terminated).ok()
    });
    let parameters = options.flatten().filter_map(|option| match option {
        PyO3Option::Signature(items) => Some(items),
        PyO3Option::Text(_) | PyO3Option::Other => None,
    });
    let variable = parameters.flatten().filter(Parameter::is_variable);
    variable.filter_map(|parameter| Some(parameter.name?.unraw().to_string())).collect()
}

/// The parameters, and the text for the signature if the function has its own.
fn parameters_of(written: &ImplItemFn) -> Option<(Vec<Parameter>, Option<String>)> {
    let Some(attribute) = written.attrs.iter().find(|attribute| is_named(attribute, "pyo3")) else {
        let names = typed(written).filter(|(_, ty)| !is_python(ty)).map(|(name, _)| positional(name));
        return Some((names.collect(), None));
    };
    let options = attribute.parse_args_with(Punctuated::<PyO3Option, Token![,]>::parse_terminated).ok()?;
    let (mut parameters, mut text) = (None, None);
    for option in options {
        match option {
            PyO3Option::Signature(items) => parameters = Some(items),
            PyO3Option::Text(own) => text = Some(own),
            PyO3Option::Other => return None,
        }
    }
    Some((parameters?, text))
}

fn positional(name: &Ident) -> Parameter {
    Parameter { stars: String::new(), name: Some(name.clone()), default: None, is_keyword: false }
}

/// The names of the parameters in Rust, with their types.
fn typed(written: &ImplItemFn) -> impl Iterator<Item = (&Ident, &Type)> {
    written.sig.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(parameter) => match &*parameter.pat {
            Pat::Ident(pattern) => Some((&pattern.ident, &*parameter.ty)),
            _ => None,
        },
        FnArg::Receiver(_) => None,
    })
}

fn type_of<'a>(written: &'a ImplItemFn, wanted: &Ident) -> Option<&'a Type> {
    typed(written).find(|(name, _)| *name == wanted).map(|(_, ty)| ty)
}

fn is_python(ty: &Type) -> bool {
    last_segment(ty).is_some_and(|segment| segment == "Python")
}

/// The last part of the name of a type. A declarative macro puts its types into groups.
fn last_segment(mut ty: &Type) -> Option<&Ident> {
    while let Type::Group(group) = ty {
        ty = &group.elem;
    }
    match ty {
        Type::Path(path) => path.path.segments.last().map(|segment| &segment.ident),
        _ => None,
    }
}

/// The constructor with parameters that may be absent, and with all other arguments.
fn explained(
    written: &ImplItemFn,
    parameters: &[Parameter],
    required: &[&Parameter],
    text: &str,
) -> Option<ImplItemFn> {
    let names: Vec<&Ident> = required.iter().filter_map(|parameter| parameter.name.as_ref()).collect();
    let texts: Vec<String> = names.iter().map(|name| name.unraw().to_string()).collect();
    let keywords = required.iter().map(|parameter| parameter.is_keyword);
    let mut items: Vec<_> =
        parameters.iter().map(|item| item.tokens(!names.is_empty()).into_token_stream()).collect();
    let takes_any = parameters.iter().any(Parameter::is_variable);
    if !takes_any {
        if !parameters.iter().any(|item| item.stars == "*") {
            items.push(quote!(*more_arguments));
        }
        items.push(quote!(**unknown_arguments));
    }
    let (inputs, arguments) = inputs_of(written, parameters, &names)?;
    let (function, generics) = (&written.sig.ident, &written.sig.generics);
    let call = quote!(Self::#function(#(#arguments),*));
    let (returned, call) = match &written.sig.output {
        ReturnType::Type(_, ty) if last_segment(ty).is_some_and(|segment| segment == "PyResult") => {
            (quote!(#ty), call)
        }
        ReturnType::Type(_, ty) => (quote!(PyResult<#ty>), quote!(Ok(#call))),
        ReturnType::Default => return None,
    };
    let known = parameters.iter().filter_map(|item| Some((item.name.as_ref()?, item.is_keyword)));
    let known = known.map(|(name, is_keyword)| {
        let name = name.unraw().to_string();
        quote!((#name, #is_keyword))
    });
    let refusal = (!takes_any).then(|| {
        quote!(crate::error::refuse_arguments::<Self>(more_arguments, unknown_arguments, &[#(#known),*])?;)
    });
    let check = (!names.is_empty()).then(|| {
        quote! {
            let given = [#((#texts, #names.0.is_some(), #keywords)),*];
            let (#(crate::error::Given(Some(#names)),)*) = (#(#names,)*) else {
                return Err(crate::error::missing_arguments::<Self>(&given));
            };
        }
    });
    Some(parse_quote! {
        #[new]
        #[pyo3(signature = (#(#items),*), text_signature = #text)]
        #[allow(clippy::too_many_arguments, clippy::allow_attributes, reason = "keyword arguments of Python")]
        fn new_from_python #generics (#inputs) -> #returned {
            #refusal
            #check
            #call
        }
    })
}

/// The parameters of the function in Rust, and the arguments for the function as it was written.
fn inputs_of(
    written: &ImplItemFn,
    parameters: &[Parameter],
    may_be_absent: &[&Ident],
) -> Option<(Punctuated<FnArg, Token![,]>, Vec<Expr>)> {
    let by_keyword: Vec<&Ident> =
        parameters.iter().filter(|item| item.is_keyword).filter_map(|item| item.name.as_ref()).collect();
    let mut more: Option<FnArg> = (!parameters.iter().any(Parameter::is_variable))
        .then(|| parse_quote!(more_arguments: &Bound<'_, crate::error::PyTuple>));
    let unknown: Option<FnArg> =
        more.as_ref().map(|_| parse_quote!(unknown_arguments: Option<&Bound<'_, crate::error::PyDict>>));
    let (mut inputs, mut arguments) = (Punctuated::new(), Vec::new());
    for input in &written.sig.inputs {
        let FnArg::Typed(mut parameter) = input.clone() else { return None };
        let Pat::Ident(pattern) = &*parameter.pat else { return None };
        let name = pattern.ident.clone();
        let mut reference = None;
        if may_be_absent.contains(&&name) {
            let mut ty = &*parameter.ty;
            while let Type::Group(group) = ty {
                ty = &group.elem;
            }
            if let Type::Reference(borrowed) = ty
                && last_segment(&borrowed.elem).is_some_and(|segment| segment == "Bound")
            {
                (ty, reference) = (&borrowed.elem, Some(quote!(&)));
            }
            *parameter.ty = parse_quote!(crate::error::Given<#ty>);
        }
        if by_keyword.contains(&&name) {
            inputs.extend(more.take());
        }
        arguments.push(parse_quote!(#reference #name));
        inputs.push(FnArg::Typed(parameter));
    }
    inputs.extend(more);
    inputs.extend(unknown);
    Some((inputs, arguments))
}

fn text_signature(parameters: &[Parameter]) -> String {
    let texts: Vec<String> = parameters.iter().map(Parameter::text).collect();
    format!("({})", texts.join(", "))
}

/// A default value in Python.
fn python_of(value: &Expr) -> String {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => format!("'{}'", text.value()),
        Expr::Lit(ExprLit { lit: Lit::Bool(flag), .. }) => {
            if flag.value { "True" } else { "False" }.to_owned()
        }
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => number.base10_digits().to_owned(),
        Expr::Lit(ExprLit { lit: Lit::Float(number), .. }) => number.base10_digits().to_owned(),
        Expr::Path(path) if path.path.is_ident("None") => "None".to_owned(),
        _ => "...".to_owned(),
    }
}
