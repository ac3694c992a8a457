//! The arguments of a tool call that are a JSON text in Pydantic AI and an object in a thread.
//!
//! Tools that store JSON preserve the object, but not its text: an action holds the object, and the round-trip metadata
//! holds the notation of the text. Texts whose notation does not follow from the object are stored beside it.

use std::borrow::Cow;

use super::model::Value;
use super::roundtrip_metadata::{ActionMetadata, ObjectWriter};
use super::write::Sink;
use turntree_core::json::notation::{Notation, Style, is_portable};
use turntree_core::json::{RawJson, eq_doubles};

/// The form of arguments in Pydantic AI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ArgumentsForm {
    /// A JSON value.
    #[default]
    Json,
    /// A JSON text.
    Text(Style),
}

/// The names of forms in round-trip metadata.
const FORMS: &[(&str, ArgumentsForm)] = &[
    ("json", ArgumentsForm::Json),
    ("text", ArgumentsForm::Text(Style { is_spaced: false, is_ascii: false })),
    ("spaced", ArgumentsForm::Text(Style { is_spaced: true, is_ascii: false })),
    ("ascii", ArgumentsForm::Text(Style { is_spaced: false, is_ascii: true })),
    ("spaced_ascii", ArgumentsForm::Text(Style { is_spaced: true, is_ascii: true })),
];

impl ArgumentsForm {
    /// The name in round-trip metadata.
    pub(super) fn name(self) -> &'static str {
        FORMS.iter().find(|(_, form)| *form == self).map_or("json", |(name, _)| name)
    }

    /// The form with this name; a JSON value if the name is unknown.
    pub(super) fn of_name(name: &str) -> Self {
        FORMS.iter().find(|(known, _)| *known == name).map_or(Self::Json, |(_, form)| *form)
    }
}

/// The text of arguments that an action stores as an object.
#[derive(Debug)]
pub(super) enum ArgumentsText {
    /// A text that follows from the object.
    Derived(Notation),
    /// Another text.
    Verbatim(String),
}

impl ArgumentsText {
    /// Reads a text of arguments. `None` if it is not an object, or if a tool that stores JSON rejects it as such: the
    /// action stores the text as a string.
    pub(super) fn read(text: &str) -> Option<(RawJson, Self)> {
        let object = object(text)?;
        if let Some(notation) = Notation::of(text) {
            return Some((object, Self::Derived(notation)));
        }
        is_portable(text).then(|| (object, Self::Verbatim(text.to_owned())))
    }

    /// The form of the arguments.
    pub(super) const fn form(&self) -> ArgumentsForm {
        match self {
            Self::Derived(notation) => ArgumentsForm::Text(notation.style),
            Self::Verbatim(_) => ArgumentsForm::Text(Style { is_spaced: false, is_ascii: false }),
        }
    }

    /// Writes the members of the round-trip metadata. `default` is the form of calls without these members.
    pub(super) fn write(&self, default: ArgumentsForm, writer: &mut ObjectWriter) {
        match self {
            Self::Verbatim(text) => writer.text("args_text", text),
            Self::Derived(notation) => {
                write_form(self.form(), default, writer);
                if notation.order.is_empty() {
                    return;
                }
                let out = writer.key("args_order");
                for (index, place) in notation.order.iter().enumerate() {
                    out.raw(if index == 0 { "[" } else { "," });
                    out.raw(&place.to_string());
                }
                out.raw("]");
            }
        }
    }
}

/// Writes the form of arguments unless it is the default.
pub(super) fn write_form(form: ArgumentsForm, default: ArgumentsForm, writer: &mut ObjectWriter) {
    if form != default {
        writer.text("args", form.name());
    }
}

/// The text of the arguments of a call; `None` if Pydantic AI holds them as a JSON value.
///
/// A stored text is returned only if its value is that of the arguments, which an application may have changed.
pub(super) fn text<'t>(
    args: &'t RawJson,
    stored: &ActionMetadata<'t>,
    default: ArgumentsForm,
) -> Option<Cow<'t, str>> {
    if args.is_string() {
        return None;
    }
    if let Some(text) = &stored.args_text {
        let is_same = object(text.as_str()).is_some() && eq_doubles(text.as_str(), args.get());
        return Some(if is_same { text.clone().into_cow() } else { Cow::Borrowed(args.get()) });
    }
    match stored.args.as_ref().map_or(default, |name| ArgumentsForm::of_name(name.as_str())) {
        ArgumentsForm::Json => None,
        ArgumentsForm::Text(style) => {
            let order = stored.args_order.clone().unwrap_or_default();
            Some(Notation { style, order }.write(args.get()))
        }
    }
}

/// True if the arguments of a call are a text that its action stores as an object.
pub(super) fn is_text(value: Option<&Value<'_>>, args: &RawJson) -> bool {
    !args.is_string() && value.is_some_and(Value::is_text)
}

/// The object in a text of arguments.
fn object(text: &str) -> Option<RawJson> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    RawJson::from_embedded(text)
}
