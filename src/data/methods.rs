//! The Python methods that all data classes share: dump, validation, JSON Schema, pickling, equality, hashing, reprs.

use std::hash::{DefaultHasher, Hasher as _};

use crate::prelude::*;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::types::{PyDict, PyTuple, PyType};

use super::class_parsers::entry_of;
use super::dump::Dump;
use super::handle::Data;
use crate::convert::any::tree_to_python;
use crate::convert::json::{data_raw, document_raw, document_text, is_plain, json_to_python};
use turntree_core::json::canonical::{CanonicalForm, canonical};
use turntree_core::json::indented;
use turntree_core::render::ObjectSummary;

#[pymethods]
impl Data {
    /// Return the value as a dict.
    #[pyo3(signature = (*, mode = "python", by_alias = true, exclude_none = false))]
    fn model_dump<'py>(
        slf: &Bound<'py, Self>,
        mode: &str,
        by_alias: bool,
        exclude_none: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let plain = json_to_python(py, &slf.get().to_json(slf.py())?)?.into_bound(py);
        let python = match mode {
            "python" => true,
            "json" => false,
            other => {
                let message = format!("mode must be \"python\" or \"json\", not \"{other}\"");
                return Err(pyo3::exceptions::PyValueError::new_err(message));
            }
        };
        if !python && by_alias && !exclude_none {
            return Ok(plain);
        }
        let schema = (entry_of(&slf.get_type())?.schema)();
        Dump { schema: &schema, python, by_alias, exclude_none, from_names: false }.apply(&plain)
    }

    /// Return the value as JSON text.
    #[pyo3(signature = (*, indent = None, by_alias = true, exclude_none = false))]
    fn model_dump_json(
        slf: &Bound<'_, Self>,
        indent: Option<usize>,
        by_alias: bool,
        exclude_none: bool,
    ) -> PyResult<String> {
        let mut text = slf.get().to_json(slf.py())?;
        if !by_alias || exclude_none {
            let plain = Self::model_dump(slf, "json", by_alias, exclude_none)?;
            document_raw(&plain, "value")?.get().clone_into(&mut text);
        }
        Ok(match indent {
            Some(indent) => indented(&text, indent),
            None => text,
        })
    }

    /// Create a value from an instance or from plain data, with the keys of the specification or of Python.
    #[classmethod]
    fn model_validate(class: &Bound<'_, PyType>, obj: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        if obj.is_instance(class)? {
            return Ok(obj.clone().unbind());
        }
        let entry = entry_of(class)?;
        let text = data_raw(obj, "obj")?;
        let error = match (entry.parse_plain)(class.py(), text.get()) {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        // Try Python's names, as `model_dump(by_alias=False)` writes them.
        let schema = (entry.schema)();
        let plain = json_to_python(class.py(), text.get())?.into_bound(class.py());
        let dump =
            Dump { schema: &schema, python: false, by_alias: true, exclude_none: false, from_names: true };
        let renamed = data_raw(&dump.apply(&plain)?, "obj")?;
        if renamed == text {
            return Err(error);
        }
        (entry.parse_plain)(class.py(), renamed.get())
    }

    /// Create a value from JSON text.
    #[classmethod]
    fn model_validate_json(class: &Bound<'_, PyType>, json_data: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        if json_data.is_instance_of::<PyDict>() {
            return Err(PyTypeError::new_err(
                "json_data must be str or bytes; use model_validate for a dict",
            ));
        }
        (entry_of(class)?.parse)(class.py(), &document_text(json_data, "json_data")?)
    }

    /// Return the JSON Schema (2020-12) of the class.
    #[classmethod]
    fn model_json_schema(class: &Bound<'_, PyType>) -> PyResult<Py<PyAny>> {
        tree_to_python(class.py(), &(entry_of(class)?.schema)())
    }

    /// Return the value as plain data, with the keys of the specification.
    fn to_dict(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        json_to_python(py, &self.to_json(py)?)
    }

    /// Return the value as compact JSON text.
    #[pyo3(name = "to_json")]
    fn to_json_text(&self, py: Python<'_>) -> PyResult<String> {
        self.to_json(py)
    }

    /// Create a value from JSON text or from a dict.
    #[classmethod]
    fn from_json(class: &Bound<'_, PyType>, data: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let entry = entry_of(class)?;
        let parse = if is_plain(data) { entry.parse_plain } else { entry.parse };
        parse(class.py(), &document_text(data, "data")?)
    }

    /// Return the core schema of the class, for pydantic.
    #[classmethod]
    fn __get_pydantic_core_schema__<'py>(
        class: &Bound<'py, PyType>,
        _source: &Bound<'py, PyAny>,
        _handler: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = class.py();
        py.import(intern!(py, "turntree._pydantic"))?.getattr(intern!(py, "core_schema_of"))?.call1((class,))
    }

    /// Return the JSON Schema of the class, for pydantic.
    #[classmethod]
    fn __get_pydantic_json_schema__<'py>(
        class: &Bound<'py, PyType>,
        _core_schema: &Bound<'py, PyAny>,
        handler: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = class.py();
        py.import(intern!(py, "turntree._pydantic"))?
            .getattr(intern!(py, "json_schema_of"))?
            .call1((class, handler))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let restore = py.import(intern!(py, "turntree._core"))?.getattr(intern!(py, "_restore"))?;
        let arguments = (slf.get_type(), slf.get().to_json(slf.py())?).into_pyobject(py)?;
        (restore, arguments).into_pyobject(py)
    }

    fn __copy__(slf: Py<Self>, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Self::__deepcopy__(slf, py, None)
    }

    #[pyo3(signature = (_memo = None))]
    fn __deepcopy__(slf: Py<Self>, py: Python<'_>, _memo: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
        let class = slf.bind(py).get_type();
        let entry = entry_of(&class)?;
        if entry.frozen {
            return Ok(slf.into_any());
        }
        (entry.parse)(py, &slf.get().to_json(py)?)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| self.value.same_as(&*other.get().value))
    }

    fn __hash__(slf: &Bound<'_, Self>) -> PyResult<u64> {
        let class = slf.get_type();
        if !entry_of(&class)?.frozen {
            return Err(PyTypeError::new_err(format!("unhashable type: '{}'", class.name()?)));
        }
        // Equal values have the same form, in which all numbers are doubles.
        let mut hasher = DefaultHasher::new();
        hasher.write(&canonical(&slf.get().to_json(slf.py())?, CanonicalForm::JavaScript));
        Ok(hasher.finish())
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        match rendered(slf, "short")? {
            Some(text) => Ok(text),
            None => Ok(summary(slf)?.text()),
        }
    }

    /// Return the value as HTML, for notebooks.
    fn _repr_html_(slf: &Bound<'_, Self>) -> PyResult<String> {
        match rendered(slf, "html")? {
            Some(text) => Ok(text),
            None => Ok(summary(slf)?.html()),
        }
    }

    /// Return the value as Markdown, for notebooks; None if it is not text.
    fn _repr_markdown_(slf: &Bound<'_, Self>) -> PyResult<Option<String>> {
        rendered(slf, "markdown")
    }

    /// Return the parts of the repr, for rich.
    fn __rich_repr__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        display(slf, "rich")
    }
}

/// Calls a function of `turntree._display`, which has what only people see. It is imported at the first use.
fn display<'py>(value: &Bound<'py, Data>, function: &str) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    py.import(intern!(py, "turntree._display"))?.getattr(function)?.call1((value,))
}

/// What Python renders; None if the class has no renderer.
fn rendered(value: &Bound<'_, Data>, function: &str) -> PyResult<Option<String>> {
    display(value, function)?.extract()
}

fn summary(value: &Bound<'_, Data>) -> PyResult<ObjectSummary> {
    Ok(ObjectSummary::of(value.get_type().name()?.to_str()?, &value.get().to_json(value.py())?))
}
